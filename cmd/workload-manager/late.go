package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// lateSessions is the provisioner, once the store has answered and the
// cluster serves agent-sandbox. Until then calls fail as for a dependency out
// of reach, which is what it is.
type lateSessions struct {
	provisioner atomic.Pointer[provision.Provisioner]
}

func (l *lateSessions) get() (*provision.Provisioner, error) {
	if p := l.provisioner.Load(); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("waiting for the store and for agent-sandbox: %w", sandbox.ErrUnavailable)
}

// Create implements workloadmanager.Sessions.
func (l *lateSessions) Create(ctx context.Context, r provision.Request) (session.Session, error) {
	p, err := l.get()
	if err != nil {
		return session.Session{}, err
	}
	return p.Create(ctx, r)
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
