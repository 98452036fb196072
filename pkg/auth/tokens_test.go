package auth

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestTokensOfAHundredThousandSessionsTakeLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the heap
	s := signerWith(t, clocktesting.NewFakeClock(time.Unix(0, 0)), keyOne())
	text, err := s.SandboxAuthorization(sessionID, "", Principal{})
	require.NoError(t, err)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const many = 100_000
	before := heap()
	for i := range many {
		k := tokenKey{session: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), identity: identity{key: "0123456789abcdef"}}
		s.keep(k, strings.Clone(text), 0)
	}
	grown := heap() - before
	require.Equal(t, many, s.tokens.Len()-1)
	t.Logf("%d tokens of %d bytes take %d MB", many, len(text), grown>>20)
	assert.Less(t, grown, int64(100<<20))
	runtime.KeepAlive(s)
}
