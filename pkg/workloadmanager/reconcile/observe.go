package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// reasonOutdated is a row's reason while the status of its sandbox is older
// than the spec.
const reasonOutdated = "SandboxStatusOutdated"

// seen is what an object shows.
type seen struct {
	session.Observed
	// outdated: an address was not taken up, since it may be that of a pod
	// that is about to go.
	outdated bool
}

// observe reads what the object shows, and what the Sandbox of a claim does.
func (r *Reconciler) observe(ctx context.Context, row session.Session, object sandbox.Object) (seen, error) {
	if object.Ref.Kind == session.KindSandboxClaim && object.SandboxName != "" {
		if restsOn(row, object) {
			object.SandboxUID = row.Sandbox.UID
		} else if err := r.askSandbox(ctx, &object); err != nil {
			return seen{}, err
		}
	}
	return show(row, object), nil
}

// askSandbox completes a claim by what only its Sandbox tells: its UID, since
// another one may bear the same name, and its switch. A Sandbox that is gone
// serves nothing, even if the claim has not noticed.
func (r *Reconciler) askSandbox(ctx context.Context, claim *sandbox.Object) error {
	ref := session.ObjectRef{Kind: session.KindSandbox, Namespace: claim.Ref.Namespace, Name: claim.SandboxName}
	own, err := r.cluster.Get(ctx, ref)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		claim.SandboxName = ""
		return nil
	case err != nil:
		return fmt.Errorf("reading the sandbox of %s: %w", claim.Ref, err)
	}
	claim.SandboxUID, claim.Suspended, claim.Outdated = own.Ref.UID, own.Suspended, own.Outdated
	return nil
}

// show says what the row of an object is to be.
func show(row session.Session, object sandbox.Object) seen {
	o := seen{Observed: session.Observed{
		State: session.StateNotReady, Reason: object.Reason, Message: object.Message,
		Object: object.Ref, ResourceVersion: object.ResourceVersion,
	}}
	if object.SandboxName != "" {
		o.Sandbox = session.SandboxRef{Name: object.SandboxName, UID: object.SandboxUID}
		if len(object.Addresses) > 0 {
			o.Address = object.Addresses[0]
		}
	}
	switch {
	case object.Suspended:
		o.State, o.Address = session.StateSuspended, ""
	case o.Address != "" && object.Outdated && !row.ServedAt(o.Address):
		// Resumed, and the controller has yet to look: it may have been about
		// to delete the pod. An address that the row has is no new promise.
		o.Address, o.outdated = "", true
		o.Reason, o.Message = reasonOutdated, errOutdated.Error()
	case object.Ready && o.Address != "":
		o.State, o.Reason, o.Message = session.StateReady, "", ""
	}
	return o
}

// restsOn reports whether the row was written from this very version of the
// object: the sandbox it names was read then, and served. After a start every
// object comes up, and to ask for the sandbox of each claim would take minutes.
func restsOn(row session.Session, object sandbox.Object) bool {
	return row.State == session.StateReady && object.ResourceVersion != "" && row.ResourceVersion == object.ResourceVersion &&
		row.Object.UID == object.Ref.UID && row.Sandbox.Name == object.SandboxName && row.Sandbox.UID != ""
}
