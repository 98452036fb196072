package router

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

func TestSessionReference(t *testing.T) {
	t.Parallel()
	one, two := sessiontest.ID(1), sessiontest.ID(2)
	const name = api.HeaderSessionID
	for sentence, c := range map[string]struct {
		header http.Header
		query  string
		want   reference
	}{
		"nothing is given":               {want: reference{}},
		"the header":                     {header: header(name, one), want: reference{true, one}},
		"an empty header":                {header: header(name, ""), want: reference{given: true}},
		"upper case":                     {header: header(name, strings.ToUpper("0000000a-0000-4000-8000-000000000001")), want: reference{given: true}},
		"the name of an index":           {header: header(name, "expiry"), want: reference{given: true}},
		"10 kB":                          {header: header(name, strings.Repeat("a", 10<<10)), want: reference{given: true}},
		"the header twice, the same":     {header: header(name, one, name, one), want: reference{true, one}},
		"the header twice, another":      {header: header(name, one, name, two), want: reference{given: true}},
		"two ids in one header":          {header: header(name, one+", "+one), want: reference{given: true}},
		"the cookie":                     {header: header("Cookie", "a=b; "+name+"="+one+"; c=d"), want: reference{true, one}},
		"the cookie in quotes":           {header: header("Cookie", name+`="`+one+`"`), want: reference{true, one}},
		"an empty cookie":                {header: header("Cookie", name+"="), want: reference{given: true}},
		"a cookie of a longer name":      {header: header("Cookie", "x"+name+"="+one), want: reference{}},
		"cookies that differ":            {header: header("Cookie", name+"="+one, "Cookie", name+"="+two), want: reference{given: true}},
		"the query":                      {query: "a=b&" + name + "=" + one, want: reference{true, one}},
		"the query, escaped":             {query: "x-agentcube%2Dsession-id=" + strings.ReplaceAll(one, "-", "%2D"), want: reference{true, one}},
		"the query without a value":      {query: name, want: reference{given: true}},
		"the query twice, another":       {query: name + "=" + one + "&" + name + "=" + two, want: reference{given: true}},
		"a bad escape in the value":      {query: name + "=%zz", want: reference{given: true}},
		"the header before the cookie":   {header: header(name, one, "Cookie", name+"="+two), want: reference{true, one}},
		"the cookie before the query":    {header: header("Cookie", name+"="+one), query: name + "=" + two, want: reference{true, one}},
		"a bad header hides a good rest": {header: header(name, "x", "Cookie", name+"="+two), query: name + "=" + two, want: reference{given: true}},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, sessionReference(c.header, c.query))
		})
	}
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestTheParameterIsCutOut(t *testing.T) {
	t.Parallel()
	const name = api.HeaderSessionID
	for query, want := range map[string]string{
		"":                              "",
		"a=1&b=2":                       "a=1&b=2",
		name + "=i":                     "",
		"a=1&" + name + "=i":            "a=1",
		name + "=i&a=1":                 "a=1",
		"a=%2F&" + name + "=i&&b;c&d=+": "a=%2F&&b;c&d=+",
		"a=" + name:                     "a=" + name,
		"x=%zz&%zz=" + name:             "x=%zz&%zz=" + name,
		name + "x=1":                    name + "x=1",
	} {
		got, _ := cutParameter(query)
		assert.Equal(t, want, got, query)
	}
}

func TestTheCookieIsCutOut(t *testing.T) {
	t.Parallel()
	const name = api.HeaderSessionID
	for sentence, c := range map[string]struct{ headers, want []string }{
		"alone":                 {[]string{name + "=i"}, nil},
		"first":                 {[]string{name + "=i; a=b"}, []string{"a=b"}},
		"last":                  {[]string{"a=b; " + name + "=i"}, []string{"a=b"}},
		"between":               {[]string{`a="b c";  ` + name + "=i; d=e"}, []string{`a="b c"; d=e`}},
		"another is left as is": {[]string{"a=b;c = d;;"}, []string{"a=b;c = d;;"}},
		"in the second header":  {[]string{"a=b", name + "=i"}, []string{"a=b"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got, _ := cutCookie(c.headers)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestBrowsersNameTheSessionByCookieOrQuery(t *testing.T) { //nolint:tparallel // the cases share a sandbox
	t.Parallel()
	const name = api.HeaderSessionID
	r := newRig(t)
	s := newSandbox(t, nil)
	id := r.ready(s.endpoint())
	for sentence, c := range map[string]struct{ query, cookie, wantURI, wantCookie string }{ //nolint:paralleltest // they share the sandbox
		"the query":                   {"?a=1&" + name + "=" + id + "&b", "", "/x?a=1&b", ""},
		"the query and nothing else":  {"?" + name + "=" + id, "", "/x", ""},
		"the cookie":                  {"?a=1", "k=v; " + name + "=" + id, "/x?a=1", "k=v"},
		"the cookie, and a bare mark": {"?", name + "=" + id, "/x?", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			head := []string{"GET " + echoPath + "/x" + c.query + " HTTP/1.1"}
			if c.cookie != "" {
				head = append(head, "Cookie: "+c.cookie)
			}
			res := r.raw(head...)
			require.Equal(t, http.StatusOK, res.StatusCode)
			assert.Equal(t, id, res.Header.Get(name))
			got := s.last(t)
			assert.Equal(t, c.wantURI, got.RequestURI)
			assert.Equal(t, c.wantCookie, got.Header.Get("Cookie"))
		})
	}
}

func FuzzTheParameterIsCutOutAndNothingElse(f *testing.F) {
	f.Add("a=1&x-agentcube-session-id=i&b")
	f.Add("x-agentcube%2dsession-id&&;=%zz")
	f.Fuzz(func(t *testing.T, query string) {
		rest, values := cutParameter(query)
		again, more := cutParameter(rest)
		require.Equal(t, rest, again)
		require.Empty(t, more)
		if len(values) == 0 {
			require.Equal(t, query, rest)
		}
		// What is left stood in the query, in this order.
		pairs := strings.Split(query, "&")
		for pair := range strings.SplitSeq(rest, "&") {
			for len(pairs) > 0 && pairs[0] != pair {
				pairs = pairs[1:]
			}
			if rest != "" {
				require.NotEmpty(t, pairs)
				pairs = pairs[1:]
			}
		}
	})
}

func FuzzOnlyValidIDsAreReferences(f *testing.F) {
	f.Add(sessiontest.ID(1), "x-agentcube-session-id=1", "x-agentcube-session-id=;a=b")
	f.Fuzz(func(t *testing.T, value, query, cookie string) {
		for _, h := range []http.Header{header(api.HeaderSessionID, value), header("Cookie", cookie), {}} {
			ref := sessionReference(h, query)
			require.True(t, ref.id == "" || session.ValidID(ref.id))
			require.True(t, ref.given || ref.id == "")
		}
		kept, _ := cutCookie([]string{cookie})
		_, values := cutCookie(kept)
		require.Empty(t, values)
	})
}
