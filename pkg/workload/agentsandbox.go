package workload

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// agentSandbox is what is known of the agent-sandbox of the cluster.
type agentSandbox struct {
	mu sync.Mutex
	// The rest is guarded by mu. asked is false until the cluster has
	// answered for the first time; pools is nil unless it serves agent-sandbox.
	asked            bool
	pools            Pools
	templates, warms *follower
}

// set returns whether there may be something to do: what was served anew may
// have lost its objects meanwhile.
func (a *agentSandbox) set(pools Pools, templates, warms *follower) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := !a.asked || a.pools != nil || pools != nil
	a.asked, a.pools, a.templates, a.warms = true, pools, templates, warms
	return changed
}

func (a *agentSandbox) get() (pools Pools, asked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pools, a.asked
}

// owned reports whether the cluster has a template or a pool of that name
// whose owner has the UID.
func (a *agentSandbox) owned(name cache.ObjectName, uid string) bool {
	a.mu.Lock()
	followers := []*follower{a.templates, a.warms}
	a.mu.Unlock()
	for _, f := range followers {
		if f == nil {
			continue
		}
		if obj, ok := f.get(name); ok {
			owner := metav1.GetControllerOfNoCopy(obj)
			if owner != nil && string(owner.UID) == uid {
				return true
			}
		}
	}
	return false
}

// followAgentSandbox asks for agent-sandbox until it is served, and follows
// templates and pools until they no longer are.
func (s *syncer) followAgentSandbox(ctx context.Context) error {
	for ctx.Err() == nil {
		api, err := s.AgentSandbox()
		switch {
		case err == nil:
			s.follow(ctx, api)
		case errors.Is(err, sandbox.ErrNotServed):
			s.learn(nil, nil, nil)
		default:
			s.Log.Warn("agent-sandbox not found out, asking again", zap.Error(err))
		}
		pause(ctx, s.Clock, discoveryInterval)
	}
	return nil
}

func (s *syncer) follow(ctx context.Context, api sandbox.API) {
	templates, warms := s.owned(), s.owned()
	templates.resource, warms.resource = api.Templates(), api.WarmPools()
	s.learn(s.Pools(api), templates, warms)
	// When one of the two is no longer served, the other goes too.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	for _, f := range []*follower{templates, warms} {
		group.Go(func() error {
			defer stop()
			f.follow(ctx)
			return nil
		})
	}
	_ = group.Wait()
}

func (s *syncer) learn(pools Pools, templates, warms *follower) {
	if s.agentSandbox.set(pools, templates, warms) {
		s.enqueueAll()
	}
}

// owned follows objects that may be owned by CodeInterpreters. Only metadata
// is kept.
func (s *syncer) owned() *follower {
	return &follower{client: s.Client, transform: metadata, handler: s.ownedEvents(), log: s.Log}
}

// metadata keeps what events are told apart by.
func metadata(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:       u.GetNamespace(),
		Name:            u.GetName(),
		UID:             u.GetUID(),
		ResourceVersion: u.GetResourceVersion(),
		Generation:      u.GetGeneration(),
		OwnerReferences: u.GetOwnerReferences(),
	}}, nil
}
