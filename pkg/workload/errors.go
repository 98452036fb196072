package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Sentinels of the look-ups. Trouble with the API server is
// sandbox.ErrUnavailable or sandbox.ErrForbidden.
var (
	// ErrNotFound: there is no such template, or it is marked for deletion.
	// It does not matter whether the namespace or the custom resource itself
	// is missing.
	ErrNotFound = errors.New("template not found")
	// ErrInvalid: the template cannot be used. The text names the fields and
	// carries nothing that its author may not see.
	ErrInvalid = errors.New("is not valid")
	// ErrPool: the warm pool of the template cannot be made. The text carries
	// the message of its condition.
	ErrPool = errors.New("has no warm pool")
)

// describe names a template in messages: "CodeInterpreter default/warm".
func describe(ref session.WorkloadRef) string {
	return ref.Kind + " " + ref.Namespace + "/" + ref.Name
}

// translate turns what client-go returned for a read into the sentinels. An
// end of the caller's own context stays what it is, whatever the client made
// of it.
func translate(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsNotFound(err):
		return ErrNotFound
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: %w", sandbox.ErrForbidden, err)
	case passing(err):
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	default:
		return err
	}
}

// passing reports whether the API server could not be reached, or could not
// answer for now. Every error that is no answer of an API server counts.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests ||
		code == http.StatusRequestTimeout || code == 0
}
