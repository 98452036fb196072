package sandbox

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/agentcube/agentcube/pkg/session"
)

// pages are the answers of an API server, one object each; fails: that one is
// an error.
type pages struct {
	dynamic.ResourceInterface
	count, fails int
	asked        []metav1.ListOptions
}

var errPage = errors.New("no page")

func (p *pages) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	p.asked = append(p.asked, o)
	n := len(p.asked)
	if n == p.fails {
		return nil, errPage
	}
	u := API{Version: V1Beta1}.BuildSandbox(Spec{
		Object:    session.ObjectRef{Kind: session.KindSandbox, Namespace: "team", Name: strconv.Itoa(n)},
		SessionID: strconv.Itoa(n),
	})
	list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*u}}
	list.SetResourceVersion("42")
	if n < p.count {
		list.SetContinue("after " + strconv.Itoa(n))
	}
	return list, nil
}

func TestAListIsReadInPagesAndKeepsWhatTheCacheKeeps(t *testing.T) {
	t.Parallel()
	p := &pages{count: 3}
	anyVersion := metav1.ListOptions{
		ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, LabelSelector: LabelSessionID,
	}
	list, err := listShrunk(t.Context(), p, anyVersion, shrink(API{Version: V1Beta1}))
	require.NoError(t, err)

	items, err := meta.ExtractList(list)
	require.NoError(t, err)
	require.Len(t, items, 3)
	for i, item := range items {
		require.IsType(t, &cached{}, item)
		assert.Equal(t, strconv.Itoa(i+1), item.(*cached).SessionID)
	}
	accessor, err := meta.ListAccessor(list)
	require.NoError(t, err)
	assert.Equal(t, "42", accessor.GetResourceVersion(), "a watch goes on from there")

	require.Len(t, p.asked, 3)
	for i, next := range []string{"", "after 1", "after 2"} {
		asked := p.asked[i]
		assert.Equal(t, next, asked.Continue)
		assert.Positive(t, asked.Limit)
		assert.Empty(t, asked.ResourceVersion, "a limit is ignored for a list of any version")
		assert.Empty(t, asked.ResourceVersionMatch)
		assert.Equal(t, LabelSessionID, asked.LabelSelector)
	}
}

func TestAListThatCannotBeReadToItsEndFails(t *testing.T) {
	t.Parallel()
	_, err := listShrunk(t.Context(), &pages{count: 3, fails: 2}, metav1.ListOptions{}, shrink(API{Version: V1Beta1}))
	require.ErrorIs(t, err, errPage)
}
