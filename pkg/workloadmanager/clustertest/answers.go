package clustertest

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// What the real client makes of calls that failed in ways it alone can tell.
var (
	// ErrDown: the API server answered with a 500.
	ErrDown = Answered(metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: "etcd is not there",
	})
	// ErrUnanswered: the connection broke; whether the call was applied is not
	// known.
	ErrUnanswered = made(func(func(error)) error { return errors.New("connection reset by peer") })
	// ErrLeft: its caller left before the answer.
	ErrLeft = made(func(leave func(error)) error { leave(context.Canceled); return context.Canceled })
	// ErrTooLate: its caller's time was over before the answer.
	ErrTooLate = made(func(leave func(error)) error { leave(context.DeadlineExceeded); return context.DeadlineExceeded })
)

// Answered is what the real client makes of a create call that the API server
// answered with a status.
func Answered(status metav1.Status) error {
	return made(func(func(error)) error { return &statusError{status} })
}

type statusError struct{ status metav1.Status }

func (e *statusError) Error() string         { return e.status.Message }
func (e *statusError) Status() metav1.Status { return e.status }

// ending is a context that ends, with an error, when it is told to.
type ending struct {
	context.Context //nolint:containedctx // it is one
	err             error
}

func (e *ending) Err() error { return e.err }

func made(answer func(leave func(error)) error) error {
	ctx := &ending{Context: context.Background()}
	d := fake.NewSimpleDynamicClient(runtime.NewScheme())
	d.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, answer(func(err error) { ctx.err = err })
	})
	client := sandbox.NewClient(d, sandbox.API{Version: sandbox.V1Beta1}, sandbox.ClientOptions{})
	_, err := client.Create(ctx, sandbox.Spec{
		Object: session.ObjectRef{Kind: session.KindSandbox, Namespace: "default", Name: "made"},
	})
	return err
}
