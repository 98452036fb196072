package auth

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/utils/clock"
)

// tlsReload is how long files are taken as unchanged, so that a burst of
// handshakes does not read them each time.
const tlsReload = 5 * time.Second

// tlsMaterial is what the files held at one time. Fields whose file is not
// given are nil.
type tlsMaterial struct {
	cert  *tls.Certificate
	roots *x509.CertPool
	raw   [3][]byte // contents of cert, key and CA
}

// tlsSource reads the files again when they changed. Contents are compared,
// not times: a mounted Secret changes by swapping a symbolic link.
type tlsSource struct {
	clk   clock.PassiveClock
	files TLSFiles
	log   *zap.Logger

	mu      sync.Mutex
	current *tlsMaterial // guarded by mu
	due     time.Time    // of the next look at the files; guarded by mu
	failing bool         // the last look failed; guarded by mu
}

// newTLSSource fails when the files cannot be used at start.
func newTLSSource(clk clock.PassiveClock, files TLSFiles, log *zap.Logger) (*tlsSource, error) {
	raw, err := files.read()
	if err != nil {
		return nil, err
	}
	material, err := files.parse(raw)
	if err != nil {
		return nil, err
	}
	return &tlsSource{clk: clk, files: files, log: log, current: material, due: clk.Now().Add(tlsReload)}, nil
}

// get returns what is to be used for a handshake now. Files that cannot be
// used, as in the middle of being replaced, leave the former ones in place.
func (s *tlsSource) get() *tlsMaterial {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clk.Now()
	if now.Before(s.due) {
		return s.current
	}
	s.due = now.Add(tlsReload)
	material, err := s.reread()
	if err != nil {
		if !s.failing {
			s.log.Warn("TLS files not usable, keeping the former ones", zap.Error(err))
		}
		s.failing = true
		return s.current
	}
	if material != s.current {
		s.log.Info("TLS files reloaded", zap.String("cert", s.files.Cert), zap.String("ca", s.files.CA))
	}
	s.current, s.failing = material, false
	return s.current
}

// reread returns the current material itself when nothing changed.
func (s *tlsSource) reread() (*tlsMaterial, error) {
	raw, err := s.files.read()
	if err != nil {
		return nil, err
	}
	same := true
	for i := range raw {
		same = same && bytes.Equal(raw[i], s.current.raw[i])
	}
	if same {
		return s.current, nil
	}
	return s.files.parse(raw)
}

func (f TLSFiles) read() (raw [3][]byte, err error) {
	for i, path := range []string{f.Cert, f.Key, f.CA} {
		if path == "" {
			continue
		}
		if raw[i], err = os.ReadFile(path); err != nil {
			return raw, fmt.Errorf("reading TLS file: %w", err)
		}
	}
	return raw, nil
}

func (f TLSFiles) parse(raw [3][]byte) (*tlsMaterial, error) {
	material := &tlsMaterial{raw: raw}
	if f.Cert != "" {
		cert, err := tls.X509KeyPair(raw[0], raw[1])
		if err != nil {
			return nil, fmt.Errorf("loading %s and %s: %w", f.Cert, f.Key, err)
		}
		material.cert = &cert
	}
	if f.CA != "" {
		material.roots = x509.NewCertPool()
		if !material.roots.AppendCertsFromPEM(raw[2]) {
			return nil, fmt.Errorf("loading %s: it holds no certificate", f.CA)
		}
	}
	return material, nil
}
