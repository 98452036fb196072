package sandbox

import (
	"context"
	"time"
)

// PoolMissing reports whether a claim waits for a pool or template that its
// controller does not find: gone for good if both were made before the claim.
func (o Object) PoolMissing() bool {
	return o.Reason == "WarmPoolNotFound" || o.Reason == "TemplateNotFound"
}

// Expired reports whether the shutdown time ended the sandbox.
func (f Failure) Expired() bool {
	return f.Reason == "SandboxExpired" || f.Reason == "ClaimExpired"
}

// PoolCreated is when the SandboxWarmPool of that name was created, by the API
// server's clock, in whole seconds. It reads past every cache.
//
// Errors: ErrNotFound, ErrForbidden, ErrNotServed, ErrUnavailable.
func (c *Client) PoolCreated(ctx context.Context, namespace, name string) (time.Time, error) {
	u, err := c.readPooled(ctx, c.api.WarmPools(), namespace, name)
	if err != nil {
		return time.Time{}, err
	}
	return u.GetCreationTimestamp().Time, nil
}
