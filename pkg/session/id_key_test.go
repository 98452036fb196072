package session

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheKeyOfAnIDIsItsDigits(t *testing.T) {
	t.Parallel()
	key, ok := KeyOf("01234567-89ab-cdef-0fed-cba987654321")
	require.True(t, ok)
	assert.Equal(t, "0123456789abcdef0fedcba987654321", hex.EncodeToString(key[:]))
}

func FuzzWhatHasAKeyIsAValidID(f *testing.F) {
	f.Add("01234567-89ab-cdef-0fed-cba987654321")
	f.Add("01234567-89AB-cdef-0fed-cba987654321")
	f.Add("01234567089abocdefo0fedocba987654321")
	f.Add("01234567-89ab-cdef-0fed-cba98765432")
	f.Add("\xff1234567-89ab-cdef-0fed-cba98765432\x00")
	f.Fuzz(func(t *testing.T, id string) {
		key, ok := KeyOf(id)
		require.Equal(t, ValidID(id), ok)
		if ok {
			require.Equal(t, strings.ReplaceAll(id, "-", ""), hex.EncodeToString(key[:]))
		}
	})
}
