package clustertest

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Answered is what the real client makes of a create call that the API server
// answered with a status.
func Answered(status metav1.Status) error {
	return made(context.Background(), &statusError{status})
}

// Unanswered is what it makes of one that the connection broke under: whether
// it was applied is not known.
func Unanswered() error { return made(context.Background(), errors.New("connection reset by peer")) }

// Left is what it makes of one whose caller left before the answer.
func Left() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return made(leftMeanwhile{ctx, make(chan struct{}, 1)}, ctx.Err())
}

// Down is what it makes of an API server that fails.
func Down() error {
	return Answered(metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Message: "etcd is not there"})
}

// leftMeanwhile is over only from the second look on.
type leftMeanwhile struct {
	context.Context
	looked chan struct{}
}

func (l leftMeanwhile) Err() error {
	select {
	case l.looked <- struct{}{}:
		return nil
	default:
		return l.Context.Err()
	}
}

type statusError struct{ status metav1.Status }

func (e *statusError) Error() string         { return e.status.Message }
func (e *statusError) Status() metav1.Status { return e.status }

func made(ctx context.Context, err error) error {
	d := fake.NewSimpleDynamicClient(runtime.NewScheme())
	d.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	client := sandbox.NewClient(d, sandbox.API{Version: sandbox.V1Beta1}, sandbox.ClientOptions{})
	_, err = client.Create(ctx, sandbox.Spec{
		Object: session.ObjectRef{Kind: session.KindSandbox, Namespace: "default", Name: "made"},
	})
	return err
}
