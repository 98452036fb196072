package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
)

// pending is a create under way.
type pending struct {
	done   chan struct{}
	answer answer
	err    error
	took   time.Duration
}

// begin asks for a session without waiting for the answer.
func (e *env) begin(t *testing.T, w way, name string) *pending {
	t.Helper()
	p := &pending{done: make(chan struct{})}
	begun := time.Now()
	go func() {
		defer close(p.done)
		p.answer, p.err = send(t.Context(), http.MethodPost, e.Manager().URL+w.route, nil, e.order(name))
		p.took = time.Since(begun)
	}()
	return p
}

// wait returns the answer.
func (p *pending) wait(t *testing.T) answer {
	t.Helper()
	<-p.done
	require.NoError(t, p.err)
	return p.answer
}

// over reports whether the answer is there.
func (p *pending) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// atOnce wants an answer of the manager that waited for no bound.
func (p *pending) atOnce(t *testing.T) answer {
	t.Helper()
	a := p.wait(t)
	assert.Less(t, p.took, createBound/2, "it waited: %s", a)
	return a
}

// order is the body of a create.
func (e *env) order(name string) string {
	return `{"namespace":"` + e.namespace + `","name":"` + name + `"}`
}

// fails wants an error of the manager, and returns its message.
func fails(t *testing.T, a answer, status int, code string) string {
	t.Helper()
	require.Equal(t, status, a.status, a)
	var told api.Error
	a.decode(t, &told)
	assert.Equal(t, code, told.Code, a)
	assert.NotEmpty(t, told.Message)
	assert.Equal(t, status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable,
		a.header.Get("Retry-After") != "", "Retry-After: %q", a.header.Get("Retry-After"))
	return told.Message
}
