package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/agentcube/agentcube/pkg/session"
)

// lister has the real client and an API server that answers as told.
func lister(t *testing.T, answer http.HandlerFunc) *Lister {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	m, err := metadata.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	l := NewLister(m, API{Version: V1Beta1}, ClientOptions{})
	l.page = 2
	return l
}

// listed answers lists with pages of each resource's objects. It returns the
// queries.
func listed(t *testing.T, names map[string][]string) (*Lister, *[]url.Values) {
	t.Helper()
	var asked []url.Values
	return lister(t, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		asked = append(asked, query)
		names := names[path.Base(r.URL.Path)]
		from, _ := strconv.Atoi(query.Get("continue"))
		to := min(from+2, len(names))
		list := metav1.PartialObjectMetadataList{}
		list.APIVersion, list.Kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
		for _, name := range names[from:to] {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}})
		}
		if to < len(names) {
			list.Continue = strconv.Itoa(to)
		}
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(list))
	}), &asked
}

func TestListReadsAllPagesOfBothKindsByOurLabelAlone(t *testing.T) {
	t.Parallel()
	l, asked := listed(t, map[string][]string{"sandboxes": {"s1", "s2", "s3"}, "sandboxclaims": {"c1", "c2"}})
	var got []string
	require.NoError(t, l.List(t.Context(), func(page []Metadata) error {
		assert.LessOrEqual(t, len(page), 2)
		for _, o := range page {
			got = append(got, o.Ref.Kind+" "+o.Ref.Name)
		}
		return nil
	}))
	assert.Equal(t, []string{"Sandbox s1", "Sandbox s2", "Sandbox s3", "SandboxClaim c1", "SandboxClaim c2"}, got)
	assert.Len(t, *asked, 3)
	for _, query := range *asked {
		assert.Equal(t, LabelSessionID, query.Get("labelSelector"))
		assert.False(t, query.Has("resourceVersion"), "a list of a cache may be as old as that is")
		assert.Equal(t, "2", query.Get("limit"))
	}
}

func TestListEndsWithTheErrorOfItsVisitor(t *testing.T) {
	t.Parallel()
	l, asked := listed(t, map[string][]string{"sandboxes": {"s1", "s2", "s3"}})
	boom := errors.New("boom")
	require.Equal(t, boom, l.List(t.Context(), func([]Metadata) error { return boom }))
	assert.Len(t, *asked, 1)
}

func TestListTellsWhatAnObjectIs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	yes := true
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "n", UID: "uid", CreationTimestamp: metav1.NewTime(at),
		Labels: map[string]string{LabelSessionID: "id", LabelInstallation: "ours"},
	}}
	want := Metadata{
		Ref:       session.ObjectRef{Kind: session.KindSandbox, Namespace: "a", Name: "n", UID: "uid"},
		SessionID: "id", Installation: "ours", CreatedAt: at,
	}
	assert.Equal(t, want, metadataOf(session.KindSandbox, o))
	o.DeletionTimestamp = &o.CreationTimestamp
	o.OwnerReferences = []metav1.OwnerReference{{Kind: "CodeInterpreter"}}
	want.Deleting = true
	assert.Equal(t, want, metadataOf(session.KindSandbox, o))
	o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{Kind: "SandboxClaim", Controller: &yes})
	want.Controlled = true
	assert.Equal(t, want, metadataOf(session.KindSandbox, o))
}

func TestListTellsFailuresApart(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		code int
		body string
		want error
	}{
		"a token that expired":       {410, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`, ErrExpired},
		"a server in trouble":        {500, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`, ErrUnavailable},
		"a right that is missing":    {403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"sandboxes is forbidden: User \"x\" cannot list"}`, ErrForbidden},
		"a resource that is missing": {404, "404 page not found", ErrNotServed},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := lister(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			})
			err := l.List(t.Context(), func([]Metadata) error { t.Error("visited"); return nil })
			require.ErrorIs(t, err, c.want)
		})
	}
}
