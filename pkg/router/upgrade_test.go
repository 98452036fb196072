package router

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipe is an upgraded connection whose two directions are a test's.
type pipe struct {
	io.Reader
	io.Writer
	closed, half bool
}

func (p *pipe) Close() error      { p.closed = true; return nil }
func (p *pipe) CloseWrite() error { p.half = true; return nil }

func TestAnUpgradedConnectionIsCopiedWhole(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{})
	for name, size := range map[string]int{
		"nothing": 0, "a message": 100, "a full small buffer": smallBufferSize, "one byte more": smallBufferSize + 1,
		"both buffers full": smallBufferSize + largeBufferSize, "much": 1 << 20,
	} {
		data := make([]byte, size)
		_, _ = random.Read(data)
		for how, reader := range map[string]func(io.Reader) io.Reader{
			"at once":      func(r io.Reader) io.Reader { return r },
			"halved":       iotest.HalfReader,
			"with its end": iotest.DataErrReader,
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				var out bytes.Buffer
				from := upgraded{&pipe{Reader: reader(bytes.NewReader(data))}}
				// io.Copy must find the method by itself.
				n, err := io.Copy(struct{ io.Writer }{&out}, from)
				require.NoError(t, err)
				assert.Equal(t, int64(size), n)
				assert.True(t, bytes.Equal(data, out.Bytes()))

				out.Reset()
				to := upgraded{&pipe{Writer: &out}}
				n, err = io.Copy(to, struct{ io.Reader }{reader(bytes.NewReader(data))})
				require.NoError(t, err)
				assert.Equal(t, int64(size), n)
				assert.True(t, bytes.Equal(data, out.Bytes()))
			})
		}
	}
}

func TestAnUpgradedConnectionThatBreaks(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset by peer")
	_, err := io.Copy(io.Discard, upgraded{&pipe{Reader: io.MultiReader(strings.NewReader("some"), iotest.ErrReader(broken))}})
	require.ErrorIs(t, err, broken)
	_, err = relay(failing{broken}, strings.NewReader("some"))
	require.ErrorIs(t, err, broken)
	_, err = relay(failing{broken}, bytes.NewReader(make([]byte, 2*smallBufferSize)))
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestOneDirectionOfAnUpgradedConnectionCanBeClosed(t *testing.T) {
	t.Parallel()
	p := &pipe{}
	res := &http.Response{Body: p}
	slimUpgrade(res)
	half, ok := res.Body.(interface{ CloseWrite() error })
	require.True(t, ok)
	require.NoError(t, half.CloseWrite())
	assert.True(t, p.half)
	assert.False(t, p.closed)
	require.NoError(t, res.Body.Close())
	assert.True(t, p.closed)
	require.ErrorIs(t, upgraded{struct{ io.ReadWriteCloser }{p}}.CloseWrite(), http.ErrNotSupported)

	plain := io.NopCloser(strings.NewReader(""))
	res.Body = plain
	slimUpgrade(res)
	assert.Equal(t, plain, res.Body, "what cannot be written to is no connection")
}

func TestAQuietStreamGivesItsLargeBufferBack(t *testing.T) {
	t.Parallel()
	reads := &sizes{answers: []int{smallBufferSize, largeBufferSize, 10, 10}}
	_, err := relay(io.Discard, reads)
	require.NoError(t, err)
	assert.Equal(t, []int{smallBufferSize, largeBufferSize, largeBufferSize, smallBufferSize, smallBufferSize}, reads.asked)
}

// sizes is a source that notes how much it is asked for.
type sizes struct{ answers, asked []int }

func (s *sizes) Read(p []byte) (int, error) {
	s.asked = append(s.asked, len(p))
	if len(s.answers) == 0 {
		return 0, io.EOF
	}
	n := s.answers[0]
	s.answers = s.answers[1:]
	return n, nil
}
