package sandbox

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestObjectName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for sentence, c := range map[string]struct {
		template, prefix string
	}{
		"the template's name comes first":             {"echo", "echo-"},
		"a long name is cut to leave room":            {long, long[:54] + "-"},
		"a cut does not leave two dashes":             {strings.Repeat("a", 53) + "-bcdefghijk", strings.Repeat("a", 53) + "-"},
		"dots are no part of a DNS label":             {"my.agent.v2", "my-agent-v2-"},
		"a name of 253 characters":                    {strings.Repeat("a.", 126) + "a", strings.Repeat("a-", 27)},
		"what is no name at all still yields a label": {"...", "sandbox-"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			name, err := ObjectName(c.template, rand.Reader)

			require.NoError(t, err)
			assert.Empty(t, validation.IsDNS1123Label(name), name)
			require.True(t, strings.HasPrefix(name, c.prefix), name)
			assert.Regexp(t, `^[a-z0-9]{8}$`, name[len(c.prefix):])
		})
	}
}

func TestObjectNamesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		name, err := ObjectName("echo", nil)
		require.NoError(t, err)
		require.False(t, seen[name], name)
		seen[name] = true
	}
}

func TestObjectNameUsesEachLetterEquallyOften(t *testing.T) {
	t.Parallel()
	// Every byte once: the four that do not fit are skipped, the rest give
	// each of the 36 letters seven times.
	source := make([]byte, 256)
	for i := range source {
		source[i] = byte(i)
	}
	reader := bytes.NewReader(source)
	count := map[rune]int{}
	for range (256 - 4) / nameSuffixLength {
		suffix, err := randomSuffix(reader)
		require.NoError(t, err)
		for _, letter := range suffix {
			count[letter]++
		}
	}
	require.Len(t, count, len(nameAlphabet))
	for _, n := range count {
		assert.InDelta(t, 7, n, 1)
	}
}

func TestObjectNameSkipsBytesThatWouldFavourSomeLetters(t *testing.T) {
	t.Parallel()
	name, err := ObjectName("echo", bytes.NewReader([]byte{255, 252, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}))

	require.NoError(t, err)
	assert.Equal(t, "echo-abcdefgh", name)
}

func TestObjectNameTellsOfABrokenSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("no randomness")
	_, err := ObjectName("echo", iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)

	_, err = ObjectName("echo", bytes.NewReader([]byte{1, 2}))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestWorkloadLabelTellsLongNamesApart(t *testing.T) {
	t.Parallel()
	one, other := strings.Repeat("a", 100)+"1", strings.Repeat("a", 100)+"2"

	assert.Equal(t, "echo", WorkloadLabel("echo"))
	assert.NotEqual(t, WorkloadLabel(one), WorkloadLabel(other))
	again := WorkloadLabel(one)
	assert.Equal(t, WorkloadLabel(one), again)
}

func TestOwnerHashIsTheFirst63HexDigitsOfTheSHA256(t *testing.T) {
	t.Parallel()
	// echo -n abc | sha256sum
	assert.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a", OwnerHash("abc"))
}
