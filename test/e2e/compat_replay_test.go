package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// transcript is a recorded request and its answer. The last one is none: it
// holds the token of the echoes, decoded.
type transcript struct {
	Name, To string
	Request  struct {
		Method, Path string
		Headers      map[string]string
		Body         *string
	}
	Response struct {
		Status  int
		Headers map[string]string
		Body    string
	}
	// Note says where ours differs on purpose.
	Note           string
	Header, Claims map[string]any
}

// player replays transcripts, and knows what stands for what: the namespace,
// the ids, names and addresses that were recorded, and ours.
type player struct {
	*env
	t *testing.T
	// ours by recorded text.
	ours map[string]string
	// created is the answer to the create that began before its turn.
	created chan answer
	// tokens that reached sandboxes, by the session they are for.
	tokens map[string]map[string]any
}

// comparisons are those of the transcripts that the general one does not fit,
// each for the reason that stands there. A note in the record asks for one.
var comparisons = map[string]func(*player, transcript){
	// The contract has two rules for this. Replayed word by word it would be
	// 404; but the router's table of errors says 503 SANDBOX_NOT_READY with
	// Retry-After for a session in creating, and that is the rule about our
	// router. The 404 is what an existing router makes of our row (its
	// entryPoints are null), and tells a client wrongly that there is no such
	// session: it would not ask again.
	"invoke while the session is being created": (*player).invokeWhileCreating,
	"create agent runtime":                      (*player).awaitCreate,
	// note: ours answers 405 with a JSON body
	"GET on the create route": func(p *player, tr transcript) {
		managerRefuses(p.t, p.play(tr), http.StatusMethodNotAllowed, api.CodeMethodNotAllowed)
	},
	// note: the body is the sandbox's echo of what it received
	"invoke with a session": (*player).compareEcho,
	// note: Authorization in the echo is the router's JWT
	"invoke picod session: token to the sandbox": (*player).compareEcho,
	"invoke without a session":                   (*player).compareEcho,
	// note: ours adds code SESSION_NOT_FOUND and requestId
	"unknown session": func(p *player, tr transcript) {
		a := p.play(tr)
		p.compare(tr, a)
		routerRefuses(p.t, a, http.StatusNotFound, api.CodeSessionNotFound)
	},
	// note: ours forwards every method
	"PUT": func(p *player, tr transcript) {
		a := p.play(tr)
		require.Equal(p.t, http.StatusOK, a.status, a)
		assert.Equal(p.t, "z", p.echo(a).Body)
		assert.Equal(p.t, http.MethodPut, p.echo(a).Method)
	},
	"the JWT in the echoes above, decoded": (*player).compareTokens,
}

func replay(t *testing.T, e *env) {
	var transcripts []transcript
	recorded(t, "transcripts.json", &transcripts)
	// The first session must stay in creating while it is invoked: its pod
	// takes its time.
	slow := runtimeTemplate("echo", node.BootTime, "5s")
	e.apply(t, strings.Join([]string{recordedTemplates(), slow}, "\n---\n"))
	p := &player{
		env: e, t: t, ours: map[string]string{"default": e.namespace},
		created: make(chan answer, 1), tokens: map[string]map[string]any{},
	}
	played := map[string]bool{}
	for _, tr := range transcripts {
		require.False(t, played[tr.Name], "two transcripts are called %q", tr.Name)
		played[tr.Name] = true
		t.Log("replaying:", tr.Name)
		if compare, special := comparisons[tr.Name]; special {
			compare(p, tr)
			continue
		}
		require.Empty(t, tr.Note, "%q says that ours differs, and nothing says how", tr.Name)
		a := p.play(tr)
		p.learn(tr, a)
		p.compare(tr, a)
	}
	for name := range comparisons {
		assert.True(t, played[name], "nothing was recorded as %q", name)
	}
}

// replayClient sends what the recording one sent: no User-Agent, and it does
// not follow redirects.
var replayClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// play sends the recorded request.
func (p *player) play(tr transcript) answer {
	p.t.Helper()
	a, err := p.send(tr)
	require.NoError(p.t, err)
	return a
}

func (p *player) send(tr transcript) (answer, error) {
	base := map[string]string{"router": p.Router.URL, "workload-manager": p.Manager().URL}[tr.To]
	var body io.Reader
	if tr.Request.Body != nil {
		body = strings.NewReader(p.translate(*tr.Request.Body))
	}
	request, err := http.NewRequestWithContext(p.t.Context(), tr.Request.Method, base+p.translate(tr.Request.Path), body)
	if err != nil {
		return answer{}, err
	}
	// The recorder sent these two with every request, and did not note them.
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "") // none
	for name, value := range tr.Request.Headers {
		request.Header.Set(name, p.translate(value))
	}
	response, err := replayClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a := answer{status: response.StatusCode, header: response.Header, body: string(text)}
	if err == nil {
		err = described(request, a)
	}
	return a, err
}

// translate puts ours in the place of what was recorded.
func (p *player) translate(text string) string {
	for recorded, ours := range p.ours {
		if recorded == "default" {
			// As a word of its own: in a path, in quotes, before a name.
			for _, around := range []string{"/%s/", `"%s"`, `"%s/`} {
				text = strings.ReplaceAll(text, fmt.Sprintf(around, recorded), fmt.Sprintf(around, ours))
			}
			continue
		}
		text = strings.ReplaceAll(text, recorded, ours)
	}
	return text
}

// learn takes note of the ids, names and addresses of a session that was made.
func (p *player) learn(tr transcript, a answer) {
	p.t.Helper()
	if tr.Request.Method != http.MethodPost || tr.To != "workload-manager" || tr.Response.Status != http.StatusOK {
		return
	}
	require.Equal(p.t, http.StatusOK, a.status, a)
	var was, is api.CreateResponse
	require.NoError(p.t, json.Unmarshal([]byte(tr.Response.Body), &was))
	a.decode(p.t, &is)
	p.ours[was.SessionID], p.ours[was.SandboxID], p.ours[was.SandboxName] = is.SessionID, is.SandboxID, is.SandboxName
	require.Len(p.t, is.EntryPoints, len(was.EntryPoints))
	for i := range was.EntryPoints {
		p.ours[was.EntryPoints[i].Endpoint] = is.EntryPoints[i].Endpoint
	}
	assert.Regexp(p.t, uuidPattern, is.SessionID)
	assert.Regexp(p.t, uuidPattern, is.SandboxID)
	assert.Regexp(p.t, `^`+was.SandboxName[:len(was.SandboxName)-8]+`[a-z0-9]{8}$`, is.SandboxName)
}

const uuidPattern = `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`

// added are the fields that our bodies have more, by what tells the body.
var added = map[string][]string{
	"sessionId": {"state", "expiresAt", "idleTimeout", "generation"},
	"message":   {"code", "requestId"},
	"error":     {"code", "requestId"},
}

// addedIfKnown are those that they have only where there is something to say.
var addedIfKnown = map[string]string{"message": "reason", "error": "reason"}

// compare wants the recorded status, headers and body, up to what stands for
// what and to the fields we add.
func (p *player) compare(tr transcript, a answer) {
	p.t.Helper()
	assert.Equal(p.t, tr.Response.Status, a.status, "%s: %s", tr.Name, a)
	p.compareHeaders(tr, a)
	var was, is map[string]any
	if json.Unmarshal([]byte(tr.Response.Body), &was) != nil {
		assert.Equal(p.t, p.translate(tr.Response.Body), a.body, tr.Name)
		return
	}
	require.NoError(p.t, json.Unmarshal([]byte(p.translate(tr.Response.Body)), &was))
	require.NoError(p.t, json.Unmarshal([]byte(a.body), &is), "%s: %s", tr.Name, a)
	for mark, fields := range added {
		if _, marked := was[mark]; !marked || mark == "message" && a.status == http.StatusOK {
			continue
		}
		for _, field := range fields {
			assert.Contains(p.t, is, field, "%s: field that we add", tr.Name)
			delete(is, field)
		}
		delete(is, addedIfKnown[mark])
	}
	assert.Equal(p.t, was, is, tr.Name)
}

func (p *player) compareHeaders(tr transcript, a answer) {
	p.t.Helper()
	for name, value := range tr.Response.Headers {
		assert.Equal(p.t, p.translate(value), a.header.Get(name), "%s: header %s", tr.Name, name)
	}
}
