package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// lateSessions is the provisioner, once the store has answered and the
// cluster serves agent-sandbox. Until then calls fail with what is waited for.
type lateSessions struct {
	mu          sync.RWMutex
	provisioner *provision.Provisioner // nil: not yet; guarded by mu
	missing     error                  // why; guarded by mu
}

// newLateSessions waits for the store, which comes first.
func newLateSessions() *lateSessions {
	return &lateSessions{missing: fmt.Errorf("waiting for the store: %w", session.ErrUnavailable)}
}

// wants says what is waited for, as the error that calls fail with meanwhile.
// It reports whether that is news.
func (l *lateSessions) wants(err error) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed = l.missing == nil || l.missing.Error() != err.Error()
	l.missing = err
	return changed
}

// serve ends the wait.
func (l *lateSessions) serve(p *provision.Provisioner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.provisioner = p
}

func (l *lateSessions) get() (*provision.Provisioner, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.provisioner == nil {
		return nil, l.missing
	}
	return l.provisioner, nil
}

// Create implements workloadmanager.Sessions.
func (l *lateSessions) Create(ctx context.Context, r provision.Request) (session.Session, error) {
	p, err := l.get()
	if err != nil {
		return session.Session{}, err
	}
	return p.Create(ctx, r)
}

// Change implements workloadmanager.Sessions.
func (l *lateSessions) Change(ctx context.Context, id string, c session.Change) (session.Session, error) {
	p, err := l.get()
	if err != nil {
		return session.Session{}, err
	}
	return p.Change(ctx, id, c)
}

// Delete implements workloadmanager.Sessions.
func (l *lateSessions) Delete(ctx context.Context, id, reason string) error {
	p, err := l.get()
	if err != nil {
		return err
	}
	return p.Delete(ctx, id, reason)
}

// served is a detail of the readiness.
func (l *lateSessions) served(context.Context) error {
	_, err := l.get()
	return err
}

// wait returns when what outlived its request is done, or after the bound.
func (l *lateSessions) wait(ctx context.Context, bound time.Duration) error {
	p, err := l.get()
	if err != nil {
		return nil // nothing was ever started
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		return fmt.Errorf("undos are left to the next collector: %w", err)
	}
	return nil
}
