package router

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

// plain is a codec of bytes as they are, so that no code need be generated.
type plain struct{}

func (plain) Name() string { return "plain" }

func (plain) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("a %T", v)
	}
	return *b, nil
}

func (plain) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a %T", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

// grpcSandbox answers each message of any method with itself, and "fail" with
// an error.
func grpcSandbox(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.ForceServerCodec(plain{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		if err := stream.SendHeader(metadata.Pairs("x-method", method)); err != nil {
			return err
		}
		stream.SetTrailer(metadata.Pairs("x-last", "trailer"))
		for {
			var message []byte
			err := stream.RecvMsg(&message)
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			case string(message) == "fail":
				return status.Error(codes.FailedPrecondition, "as asked: é")
			}
			if err := stream.SendMsg(&message); err != nil {
				return err
			}
		}
	}))
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-done)
	})
	return listener.Addr().String()
}

// grpcClient speaks gRPC to the router, for the session.
func (r *rig) grpcClient() *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+r.server.Listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(plain{})))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestGRPCIsCarried(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.ready(grpcSandbox(t))
	conn := r.grpcClient()
	ctx := metadata.AppendToOutgoingContext(t.Context(), api.HeaderSessionID, id)
	const method = echoPath + "/echo.Echo/Say"

	t.Run("a call", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "hello", strings.Repeat("x", 1<<20)} {
			in, out := []byte(text), []byte(nil)
			var head, trailer metadata.MD
			require.NoError(t, conn.Invoke(ctx, method, &in, &out, grpc.Header(&head), grpc.Trailer(&trailer)))
			assert.Equal(t, text, string(out))
			assert.Equal(t, []string{"/echo.Echo/Say"}, head.Get("x-method"))
			assert.Equal(t, []string{id}, head.Get(api.HeaderSessionID))
			assert.Equal(t, []string{"trailer"}, trailer.Get("x-last"))
		}
	})
	t.Run("an error of the application", func(t *testing.T) {
		t.Parallel()
		in, out := []byte("fail"), []byte(nil)
		err := conn.Invoke(ctx, method, &in, &out)
		assert.Equal(t, codes.FailedPrecondition, status.Code(err))
		assert.Equal(t, "as asked: é", status.Convert(err).Message())
	})
	t.Run("a stream both ways, message by message", func(t *testing.T) {
		t.Parallel()
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		require.NoError(t, err)
		for i := range 50 {
			message := fmt.Appendf(nil, "message %d", i)
			require.NoError(t, stream.SendMsg(&message))
			var got []byte
			require.NoError(t, stream.RecvMsg(&got), "it arrives before the next is sent")
			assert.Equal(t, string(message), string(got))
		}
		require.NoError(t, stream.CloseSend())
		var got []byte
		require.ErrorIs(t, stream.RecvMsg(&got), io.EOF)
		assert.Equal(t, []string{"trailer"}, stream.Trailer().Get("x-last"))
	})
}

func TestErrorsOfTheRouterReachAGRPCClient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.grpcClient()
	for sentence, c := range map[string]struct {
		id   string
		want codes.Code
	}{
		"no such session": {"00000000-0000-4000-8000-00000000000e", codes.Unimplemented}, // what gRPC makes of a 404
		"not ready":       {r.ready("10.0.0.7:80", state(session.StateNotReady)), codes.Unavailable},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), api.HeaderSessionID, c.id)
		in, out := []byte("x"), []byte(nil)
		err := conn.Invoke(ctx, echoPath+"/echo.Echo/Say", &in, &out)
		assert.Equal(t, c.want, status.Code(err), sentence)
	}
}
