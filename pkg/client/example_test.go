package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/agentcube/agentcube/pkg/client"
	"github.com/agentcube/agentcube/pkg/client/clienttest"
)

// A server stands in for an installation: its router and its workload-manager
// have one URL.
func Example() {
	server := clienttest.Serve("CodeInterpreter/default/python")
	defer server.Close()
	ctx := context.Background()
	c := client.New(client.Options{WorkloadManager: server.URL, Router: server.URL})

	session, err := c.Create(ctx, client.CreateOptions{
		Kind: client.CodeInterpreter, Namespace: "default", Name: "python", TTL: time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.Invoke(ctx, client.Invocation{
		Kind: client.CodeInterpreter, Namespace: "default", Name: "python", SessionID: session.SessionID,
		Method: "POST", Path: "/run?lang=py", Body: bytes.NewReader([]byte("print(1)")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	fmt.Printf("%s\n%v\n", text, err)
	fmt.Println(answer.Status, answer.SessionID == session.SessionID)
	fmt.Println(c.Delete(ctx, session.SessionID))
	// Output:
	// POST /run?lang=py
	// print(1)
	// <nil>
	// 200 OK true
	// <nil>
}

// A create that is answered at once is waited for with WaitReady.
func ExampleClient_WaitReady() {
	server := clienttest.Serve("AgentRuntime/default/echo")
	defer server.Close()
	server.StartSlowly(1)
	ctx := context.Background()
	c := client.New(client.Options{WorkloadManager: server.URL})

	created, err := c.Create(ctx, client.CreateOptions{
		Kind: client.AgentRuntime, Namespace: "default", Name: "echo", Async: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(created.State)
	session, err := c.WaitReady(ctx, created.SessionID, nil)
	fmt.Println(session.State, err)
	// Output:
	// creating
	// ready <nil>
}

// With a key of the caller's own, a create can be repeated by another process.
func ExampleClient_Create_key() {
	server := clienttest.Serve("AgentRuntime/default/echo")
	defer server.Close()
	c := client.New(client.Options{WorkloadManager: server.URL})

	wanted := client.CreateOptions{
		Kind: client.AgentRuntime, Namespace: "default", Name: "echo", Key: "order 4711",
	}
	first, err := c.Create(context.Background(), wanted)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := c.Create(context.Background(), wanted)
	fmt.Println(second.SessionID == first.SessionID, err)
	// Output: true <nil>
}

// Pages are read as they are needed.
func ExampleClient_List() {
	server := clienttest.Serve("AgentRuntime/default/echo")
	defer server.Close()
	ctx := context.Background()
	c := client.New(client.Options{WorkloadManager: server.URL})
	for range 3 {
		if _, err := c.Create(ctx, client.CreateOptions{
			Kind: client.AgentRuntime, Namespace: "default", Name: "echo",
		}); err != nil {
			fmt.Println(err)
			return
		}
	}

	for session, err := range c.List(ctx, client.Filter{Namespace: "default", PageSize: 2}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(session.SessionID, session.State)
	}
	// Output:
	// 00000000-0000-4000-8000-000000000001 ready
	// 00000000-0000-4000-8000-000000000002 ready
	// 00000000-0000-4000-8000-000000000003 ready
}

// An error says what it is, and why a session ended.
func ExampleError() {
	server := clienttest.Serve()
	defer server.Close()
	server.End(clienttest.ID(1), "idle")
	c := client.New(client.Options{WorkloadManager: server.URL})

	_, err := c.Get(context.Background(), clienttest.ID(1))
	fmt.Println(errors.Is(err, client.ErrSessionNotFound))
	var answer *client.Error
	if errors.As(err, &answer) {
		fmt.Println(answer.Status, answer.Code, answer.Reason)
	}
	// Output:
	// true
	// 404 SESSION_NOT_FOUND idle
}

// The answer of a sandbox is streamed as it comes.
func ExampleClient_Invoke() {
	server := clienttest.Serve("AgentRuntime/default/echo")
	defer server.Close()
	c := client.New(client.Options{Router: server.URL})

	answer, err := c.Invoke(context.Background(), client.Invocation{
		Kind: client.AgentRuntime, Namespace: "default", Name: "echo", Path: "/a%2Fb//c?q=1;2",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	fmt.Println("session", answer.SessionID)
	_, err = io.Copy(os.Stdout, answer.Body)
	fmt.Println(err)
	// Output:
	// session 00000000-0000-4000-8000-000000000001
	// GET /a%2Fb//c?q=1;2
	// <nil>
}
