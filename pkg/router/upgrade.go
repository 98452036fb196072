package router

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Sizes of the buffers of upgraded connections. Most of these say nothing most
// of the time, and httputil would give each direction of each 32 KiB for as long
// as it is open. A small buffer takes a usual message; a stream that fills it
// gets a large one for as long as it goes on.
const (
	smallBufferSize = 2 << 10
	largeBufferSize = 32 << 10
)

var largeBuffers = sync.Pool{New: func() any { return new([largeBufferSize]byte) }}

// upgraded is an upgraded connection to a sandbox. httputil copies from it and
// to it with io.Copy, which leaves the copying to the methods here.
type upgraded struct{ io.ReadWriteCloser }

// slimUpgrade replaces the body of a "101 Switching Protocols".
func slimUpgrade(res *http.Response) {
	if conn, ok := res.Body.(io.ReadWriteCloser); ok {
		res.Body = upgraded{conn}
	}
}

// WriteTo implements io.WriterTo: from the sandbox.
func (u upgraded) WriteTo(w io.Writer) (int64, error) { return relay(w, u.ReadWriteCloser) }

// ReadFrom implements io.ReaderFrom: to the sandbox.
func (u upgraded) ReadFrom(r io.Reader) (int64, error) { return relay(u.ReadWriteCloser, r) }

// CloseWrite tells the sandbox that the client has said all.
func (u upgraded) CloseWrite() error {
	if conn, ok := u.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return fmt.Errorf("closing one direction of an upgraded connection: %w", http.ErrNotSupported)
}

// relay copies until the source ends, like io.Copy.
func relay(dst io.Writer, src io.Reader) (written int64, err error) {
	small := make([]byte, smallBufferSize)
	for {
		n, err := pass(dst, src, small)
		written += int64(n)
		if err == nil && n == len(small) {
			n, err = relayMuch(dst, src)
			written += int64(n)
		}
		if err != nil {
			return written, unlessEOF(err)
		}
	}
}

// relayMuch copies with a large buffer, as long as there is much.
func relayMuch(dst io.Writer, src io.Reader) (written int, err error) {
	large, _ := largeBuffers.Get().(*[largeBufferSize]byte)
	defer largeBuffers.Put(large)
	for {
		n, err := pass(dst, src, large[:])
		written += n
		if err != nil || n < smallBufferSize {
			return written, err
		}
	}
}

// pass copies what one read gives.
func pass(dst io.Writer, src io.Reader, buffer []byte) (written int, err error) {
	n, err := src.Read(buffer)
	if n > 0 {
		var writeErr error
		if written, writeErr = dst.Write(buffer[:n]); writeErr != nil {
			return written, writeErr
		}
	}
	return written, err
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
