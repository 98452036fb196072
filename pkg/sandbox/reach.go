package sandbox

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Reach asks the API server whether it is ready. One that does not let us ask is
// taken for ready, since it answers.
//
// Errors: ErrUnavailable, or ctx's.
func Reach(ctx context.Context, client rest.Interface) error {
	err := client.Get().AbsPath("/readyz").Do(ctx).Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError {
		return nil
	}
	return translate(ctx, err, "asking whether the API server is ready")
}
