package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// recordedCreate is the create that was under way when the session was invoked.
const recordedCreate = "create agent runtime"

// invokeWhileCreating sends the create before its turn, as must have been done
// when this was recorded, and invokes the session that it reserves.
func (p *player) invokeWhileCreating(tr transcript) {
	create := p.find(recordedCreate)
	go func() {
		a, err := p.send(create)
		if err != nil {
			a.body = err.Error() // a status of 0 is none that is expected
		}
		p.created <- a
	}()
	recordedID := tr.Request.Headers[api.HeaderSessionID]
	row := p.placeholder(p.t)
	p.ours[recordedID], _ = row["sessionId"].(string)
	a := p.play(tr)
	routerRefuses(p.t, a, http.StatusServiceUnavailable, api.CodeSandboxNotReady)
	comesBack(p.t, a)
	assert.Equal(p.t, p.ours[recordedID], a.header.Get(api.HeaderSessionID))
	assert.Equal(p.t, tr.Response.Headers["content-type"], a.header.Get("Content-Type"))
}

// placeholder is the row of the one session that is being created.
func (e *env) placeholder(t *testing.T) map[string]any {
	t.Helper()
	var found map[string]any
	require.Eventually(t, func() bool {
		for _, row := range e.rows(t) {
			if row["status"] == "creating" {
				found = row
			}
		}
		return found != nil
	}, settle, pollInterval, "no session is being created")
	return found
}

func (p *player) find(name string) transcript {
	var all []transcript
	recorded(p.t, "transcripts.json", &all)
	for _, tr := range all {
		if tr.Name == name {
			return tr
		}
	}
	require.Fail(p.t, "not recorded", name)
	return transcript{}
}

// awaitCreate compares the answer to the create that began before its turn.
func (p *player) awaitCreate(tr transcript) {
	reserved := p.ours[p.find("invoke while the session is being created").Request.Headers[api.HeaderSessionID]]
	a := <-p.created
	p.learn(tr, a)
	p.compare(tr, a)
	var created api.CreateResponse
	a.decode(p.t, &created)
	assert.Equal(p.t, reserved, created.SessionID, "another session became ready than was reserved")
	p.apply(p.t, runtimeTemplate("echo", node.BootTime, "300ms")) // from here on pods start fast
}

func (p *player) echo(a answer) node.Echo {
	p.t.Helper()
	var echo node.Echo
	a.decode(p.t, &echo)
	return echo
}

// compareEcho compares what reached the sandbox.
func (p *player) compareEcho(tr transcript) {
	a := p.play(tr)
	require.Equal(p.t, tr.Response.Status, a.status, a)
	is := p.echo(a)
	var was node.Echo
	require.NoError(p.t, json.Unmarshal([]byte(tr.Response.Body), &was))
	id := a.header.Get(api.HeaderSessionID)
	p.learnSilently(tr, was, id)
	p.compareHeaders(tr, a)

	p.compareToken(id, was, is)
	assert.Regexp(p.t, uuidPattern, is.UID)
	was.UID, is.UID = "", ""
	// Their router wrote the address twice; once is what it stands for.
	require.Equal(p.t, []string{"127.0.0.1, 127.0.0.1"}, was.Headers["X-Forwarded-For"])
	was.Headers.Set("X-Forwarded-For", "127.0.0.1")
	was.Headers.Set("X-Forwarded-Host", strings.TrimPrefix(p.Router.URL, "http://"))
	was.Addr, was.Host, was.Pod = p.translate(was.Addr), p.translate(was.Host), p.translate(was.Pod)
	for name, values := range was.Headers {
		for i := range values {
			was.Headers[name][i] = p.translate(values[i])
		}
	}
	assert.Equal(p.t, was, is, tr.Name)
}

// learnSilently takes note of a session that the router had made: its row
// tells what the workload-manager's answer would.
func (p *player) learnSilently(tr transcript, was node.Echo, id string) {
	p.t.Helper()
	if _, named := tr.Request.Headers[api.HeaderSessionID]; named {
		return
	}
	row, ok := p.row(p.t, id)
	require.True(p.t, ok, "the answer names session %q, which has no row", id)
	p.ours[tr.Response.Headers[api.HeaderSessionID]] = id
	p.ours[was.Pod], _ = row["name"].(string)
	point := row["entryPoints"].([]any)[0].(map[string]any)
	p.ours[was.Addr], _ = point["endpoint"].(string)
}

// compareToken keeps the token for the transcript that shows it decoded, and
// takes it out of the echoes.
func (p *player) compareToken(id string, was, is node.Echo) {
	p.t.Helper()
	require.Equal(p.t, []string{"Bearer <JWT>"}, was.Headers["Authorization"])
	p.tokenFor(p.t, id, is)
	p.tokens[id] = p.routerToken(p.t, is).Claims.(jwt.MapClaims)
	was.Headers.Del("Authorization")
	is.Headers.Del("Authorization")
}

// compareTokens compares the claims of the token for the session that the
// recorded one is for; ours adds the audience.
func (p *player) compareTokens(tr transcript) {
	assert.Equal(p.t, map[string]any{"alg": "RS256", "typ": "JWT"}, tr.Header) // as tokenFor wants ours
	require.Len(p.t, p.tokens, 3, "sessions that were invoked")
	id := p.translate(tr.Claims["session_id"].(string))
	is := p.tokens[id]
	require.NotNil(p.t, is, "no token for session %s was seen", id)
	life := func(claims map[string]any) float64 { return claims["exp"].(float64) - claims["iat"].(float64) }
	assert.InDelta(p.t, life(tr.Claims), life(is), 0)
	assert.Equal(p.t, id, is["aud"])
	delete(is, "aud")
	tr.Claims["session_id"], tr.Claims["iat"], tr.Claims["exp"] = id, is["iat"], is["exp"]
	assert.Equal(p.t, tr.Claims, is)
}
