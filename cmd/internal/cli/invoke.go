package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentcube/agentcube/cmd/internal/reach"
	"github.com/agentcube/agentcube/pkg/client"
)

// invokeFlags of `invoke`.
type invokeFlags struct {
	session, method, data string
	headers               []string
	include               bool
}

func (t *Tool) invoke() *cobra.Command {
	var f invokeFlags
	c := &cobra.Command{
		Use:   "invoke KIND/NAME [PATH]",
		Short: "Send a request to a session's sandbox",
		Long: `Send a request through the router to a session's sandbox, and print the answer
as it comes. Without --session a session is made, and told on standard error.

The path and the query reach the sandbox as they are given.

The exit code is 0 for an answer below 400, 4 for one from 400 to 499 and 5 for
one from 500 of the sandbox's own, and 1 if the router refused the request or
there was no answer.`,
		Example: `  agentcube invoke codeinterpreter/python /health
  agentcube invoke codeinterpreter/python '/run?lang=py' --session $ID -d 'print(1)'
  agentcube invoke agentruntime/echo /upload -X PUT -H 'Content-Type: text/csv' -d @table.csv
  tail -f log | agentcube invoke agentruntime/echo /feed -d @-`,
		Args: args(cobra.RangeArgs(1, 2)), ValidArgsFunction: t.completeTemplateArgs,
	}
	flags := c.Flags()
	flags.StringVar(&f.session, "session", "", "`id` of the session")
	flags.StringVarP(&f.method, "request", "X", "", "`method` of the request; GET, or POST with -d")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "`header` of the request, as 'Name: value'; may be repeated")
	flags.StringVarP(&f.data, "data", "d", "", "`body` of the request; @FILE sends a file, @- standard input")
	flags.BoolVarP(&f.include, "include", "i", false, "print the head of the answer too")
	_ = c.RegisterFlagCompletionFunc("session", t.completeSessions) // the flag is there
	c.RunE = func(c *cobra.Command, args []string) error {
		i, done, err := t.invocation(f, args, c.Flags().Changed("data"))
		if err != nil {
			return err
		}
		defer done()
		cl, err := t.client(c.Context(), reach.Router)
		if err != nil {
			return err
		}
		res, err := cl.Invoke(c.Context(), i)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		return t.printAnswer(f, res)
	}
	return c
}

// invocation reads the command line. done releases what it opened.
func (t *Tool) invocation(f invokeFlags, args []string, hasBody bool) (i client.Invocation, done func(), err error) {
	done = func() {}
	i = client.Invocation{SessionID: sessionID(f.session), Method: f.method, Header: http.Header{}, Path: "/"}
	if i.Kind, i.Name, err = templateOf(args[0]); err != nil {
		return i, done, err
	}
	if i.Namespace, err = t.templateNamespace(); err != nil {
		return i, done, err
	}
	if len(args) > 1 {
		i.Path = args[1]
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return i, done, usagef("-H %q: give 'Name: value'", h)
		}
		i.Header.Add(name, strings.TrimSpace(value))
	}
	if !hasBody {
		return i, done, nil
	}
	if i.Method == "" {
		i.Method = http.MethodPost
	}
	switch name, isFile := strings.CutPrefix(f.data, "@"); {
	case !isFile:
		i.Body = strings.NewReader(f.data)
	case name == "-":
		i.Body = t.In
	default:
		file, err := os.Open(name)
		if err != nil {
			return i, done, usagef("-d: %w", err)
		}
		return withFile(i, file)
	}
	return i, done, nil
}

// withFile sends a file. It has a length, so it is not sent in chunks if it is
// small enough to be held, and can then be sent again.
func withFile(i client.Invocation, file *os.File) (client.Invocation, func(), error) {
	const held = 1 << 20
	start, err := io.ReadAll(io.LimitReader(file, held+1))
	done := func() { _ = file.Close() }
	if err != nil {
		done()
		return i, func() {}, fmt.Errorf("reading the body: %w", err)
	}
	if len(start) <= held {
		i.Body = bytes.NewReader(start)
	} else {
		i.Body = io.MultiReader(bytes.NewReader(start), file)
	}
	return i, done, nil
}

func (t *Tool) printAnswer(f invokeFlags, res *client.Response) error {
	if f.session == "" && res.SessionID != "" {
		if err := t.say("session/%s created", res.SessionID); err != nil {
			return err
		}
	}
	if f.include {
		if _, err := fmt.Fprintf(t.Out, "%s %s\n", res.Proto, res.Status); err != nil {
			return err
		}
		var head bytes.Buffer
		if err := res.Header.Write(&head); err != nil {
			return err
		}
		if err := t.print("%s", strings.ReplaceAll(head.String(), "\r\n", "\n")); err != nil {
			return err
		}
	}
	if _, err := io.Copy(t.Out, res.Body); err != nil {
		return errors.Join(errCutShort, err)
	}
	switch {
	case res.StatusCode >= http.StatusInternalServerError:
		_ = t.say("the sandbox answered %s", res.Status)
		return exitCode(exitSandbox5xx)
	case res.StatusCode >= http.StatusBadRequest:
		_ = t.say("the sandbox answered %s", res.Status)
		return exitCode(exitSandbox4xx)
	}
	return nil
}

// errCutShort: the answer ended before its end.
var errCutShort = errors.New("the answer was cut short")
