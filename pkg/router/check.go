package router

import (
	"fmt"
	"strings"
	"time"

	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/session"
)

// check decides whether the row lets this caller, on this path, reach its
// sandbox now. What a row does not say is not checked: rows of existing
// installations name neither workload nor, always, an owner.
func check(s *session.Route, workload session.WorkloadRef, user auth.Principal, now time.Time) error {
	switch {
	case s.State == session.StateDeleting, s.Expired(now):
		return notFound(s.ID)
	case s.Workload != (session.WorkloadRef{}) && s.Workload != workload:
		return errTargetMismatch
	case user.Subject != "" && s.OwnerID != "" && s.OwnerID != user.Subject:
		return errNotOwner
	}
	switch s.State {
	case session.StateReady, "":
		return nil
	case session.StateSuspended:
		return errSuspended
	default:
		return fmt.Errorf("session is %s: %w", s.State, errNotReady)
	}
}

// destination is where and with which token a request goes.
type destination struct {
	scheme, endpoint string
	// authorization is empty if the caller's own passes.
	authorization string
}

// aim checks the exchange's row and sets its destination.
func (rt *Router) aim(x *exchange) error {
	s := x.session
	if err := check(s, x.workload, x.user, rt.clock.Now()); err != nil {
		return err
	}
	point, ok := chooseEntryPoint(s.EntryPoints, x.path)
	if !ok {
		return errNoEntryPoint
	}
	if err := checkEndpoint(point.Endpoint, rt.opts.AllowLoopbackEndpoints); err != nil {
		return err
	}
	x.to = destination{scheme: "http", endpoint: point.Endpoint}
	if strings.EqualFold(point.Protocol, session.ProtocolHTTPS) {
		x.to.scheme = "https"
	}
	x.aimed.Store(s)
	if s.AuthMode == session.AuthModeNone {
		return nil
	}
	authorization, err := rt.Signer.SandboxAuthorization(s.ID, s.KeyID, x.user)
	if err != nil {
		return fmt.Errorf("%w: %w", errSigning, err)
	}
	x.to.authorization = authorization
	return nil
}
