package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	clocktesting "k8s.io/utils/clock/testing"
)

// authority signs the certificates of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// leaf is what a certificate says; zero: nothing but both usages.
type leaf struct {
	name   string
	ips    []net.IP
	ids    []string
	usages []x509.ExtKeyUsage
	serial int64
}

// issue returns a certificate and its key in PEM.
func (a *authority) issue(t *testing.T, l leaf) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(max(l.serial, 2)), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		IPAddresses: l.ips, ExtKeyUsage: l.usages,
	}
	if l.usages == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	if l.name != "" {
		template.DNSNames = []string{l.name}
	}
	for _, id := range l.ids {
		u, err := url.Parse(id)
		require.NoError(t, err)
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// files writes a certificate of a and, as the CA, roots (nil: none).
func (a *authority) files(t *testing.T, l leaf, roots *authority) TLSFiles {
	t.Helper()
	dir := t.TempDir()
	files := TLSFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	a.renew(t, files, l)
	if roots != nil {
		files.CA = filepath.Join(dir, "ca.crt")
		write(t, files.CA, roots.pem)
	}
	return files
}

func (a *authority) renew(t *testing.T, files TLSFiles, l leaf) {
	t.Helper()
	cert, key := a.issue(t, l)
	write(t, files.Cert, cert)
	write(t, files.Key, key)
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// handshake returns what the client saw, and both sides' errors.
func handshake(t *testing.T, server, client *tls.Config) (state tls.ConnectionState, clientErr, serverErr error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		defer conn.Close()
		_, err = conn.Write([]byte("x")) // a TLS 1.3 client hears of its refusal when it reads
		served <- err
	}()
	dialer := tls.Dialer{Config: client}
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		return state, err, <-served
	}
	defer conn.Close()
	_, clientErr = io.ReadFull(conn, make([]byte, 1))
	return conn.(*tls.Conn).ConnectionState(), clientErr, <-served
}

var (
	routerID  = SPIFFEID("cluster.local", "agentcube", ServiceAccountRouter)
	managerID = SPIFFEID("cluster.local", "agentcube", ServiceAccountWorkloadManager)
)

func TestSPIFFEIDs(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "spiffe://cluster.local/ns/agentcube/sa/router", routerID)
	assert.Equal(t, "spiffe://cluster.local/ns/agentcube/sa/workload-manager", managerID)
	assert.Empty(t, SPIFFEID("", "agentcube", ServiceAccountRouter), "no trust domain, no check")
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	manager := leaf{name: "workload-manager", ids: []string{managerID}}
	router := leaf{ids: []string{routerID}}
	type side struct {
		by    *authority // who signed the certificate
		leaf  leaf
		roots *authority // whom it trusts
		peer  string
	}
	for name, test := range map[string]struct {
		server, client side
		dialed         string
		clientOK       bool // the client accepts the server
		serverOK       bool // and the server the client
	}{
		"by name": {
			side{ca, manager, ca, ""}, side{ca, router, ca, ""}, "workload-manager", true, true,
		},
		"by SPIFFE id, whatever the name": {
			side{ca, manager, ca, routerID}, side{ca, router, ca, managerID}, "other", true, true,
		},
		"a server of another name": {
			side{ca, manager, ca, ""}, side{ca, router, ca, ""}, "other", false, false,
		},
		"a server without the dialed address": {
			side{ca, manager, ca, ""}, side{ca, router, ca, ""}, "127.0.0.1", false, false,
		},
		"a server with the dialed address": {
			side{ca, leaf{ips: []net.IP{net.IPv4(127, 0, 0, 1)}}, ca, ""}, side{ca, router, ca, ""}, "127.0.0.1", true, true,
		},
		"a server with the client's SPIFFE id": {
			side{ca, router, ca, ""}, side{ca, router, ca, managerID}, "workload-manager", false, false,
		},
		"a server without a SPIFFE id": {
			side{ca, leaf{name: "workload-manager"}, ca, ""}, side{ca, router, ca, managerID}, "workload-manager", false, false,
		},
		"a server of another authority": {
			side{stranger, manager, ca, routerID}, side{ca, router, ca, managerID}, "workload-manager", false, false,
		},
		"a server with a client's certificate": {
			side{ca, leaf{name: "workload-manager", usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca, ""},
			side{ca, router, ca, ""},
			"workload-manager", false, false,
		},
		"a client of another authority": {
			side{ca, manager, ca, ""}, side{stranger, router, ca, ""}, "workload-manager", true, false,
		},
		"a client with a server's certificate": {
			side{ca, manager, ca, ""},
			side{ca, leaf{usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca, ""},
			"workload-manager", true, false,
		},
		"a client with another SPIFFE id": {
			side{ca, manager, ca, routerID}, side{ca, manager, ca, ""}, "workload-manager", true, false,
		},
		"a client of another namespace": {
			side{ca, manager, ca, routerID},
			side{ca, leaf{ids: []string{"spiffe://cluster.local/ns/other/sa/router"}}, ca, ""},
			"workload-manager", true, false,
		},
		"a client with a second id beside the right one": {
			side{ca, manager, ca, routerID},
			side{ca, leaf{ids: []string{routerID, managerID}}, ca, ""},
			"workload-manager", true, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := clocktesting.NewFakePassiveClock(time.Unix(1796072051, 0))
			server, err := ServerTLS(clk, test.server.by.files(t, test.server.leaf, test.server.roots), test.server.peer, zap.NewNop())
			require.NoError(t, err)
			client, err := ClientTLS(clk, test.client.by.files(t, test.client.leaf, test.client.roots), test.dialed, test.client.peer, zap.NewNop())
			require.NoError(t, err)
			state, clientErr, serverErr := handshake(t, server, client)
			if !test.clientOK || !test.serverOK {
				require.Error(t, clientErr)
				require.Error(t, serverErr)
				var alert *net.OpError
				refused := errors.As(clientErr, &alert) && alert.Op == "remote error"
				assert.Equal(t, test.clientOK, refused, "client: %v, server: %v", clientErr, serverErr)
				return
			}
			require.NoError(t, clientErr)
			require.NoError(t, serverErr)
			assert.Equal(t, uint16(tls.VersionTLS13), state.Version)
		})
	}
}

func TestAClientWithoutACertificateIsRefused(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	clk := clocktesting.NewFakePassiveClock(time.Unix(1796072051, 0))
	server, err := ServerTLS(clk, ca.files(t, leaf{name: "wm"}, ca), "", zap.NewNop())
	require.NoError(t, err)
	bare := TLSFiles{CA: ca.files(t, leaf{}, ca).CA}
	client, err := ClientTLS(clk, bare, "wm", "", zap.NewNop())
	require.NoError(t, err)
	_, clientErr, serverErr := handshake(t, server, client)
	require.Error(t, clientErr)
	require.Error(t, serverErr)
}

func TestVersionsOfTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	clk := clocktesting.NewFakePassiveClock(time.Unix(1796072051, 0))
	bare := TLSFiles{CA: ca.files(t, leaf{}, ca).CA}
	for name, test := range map[string]struct {
		roots   *authority // of the server: mTLS
		version uint16
		ok      bool
	}{
		"1.1":           {nil, tls.VersionTLS11, false},
		"1.2":           {nil, tls.VersionTLS12, true},
		"1.2 with mTLS": {ca, tls.VersionTLS12, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := ServerTLS(clk, ca.files(t, leaf{name: "wm"}, test.roots), "", zap.NewNop())
			require.NoError(t, err)
			files := bare
			if test.roots != nil {
				files = ca.files(t, leaf{}, ca)
			}
			client, err := ClientTLS(clk, files, "wm", "", zap.NewNop())
			require.NoError(t, err)
			client.MinVersion, client.MaxVersion = test.version, test.version
			_, clientErr, serverErr := handshake(t, server, client)
			assert.Equal(t, test.ok, clientErr == nil, "client: %v, server: %v", clientErr, serverErr)
		})
	}
}

func TestCertificatesAreReloaded(t *testing.T) {
	t.Parallel()
	former, next := newAuthority(t), newAuthority(t)
	clk := clocktesting.NewFakePassiveClock(time.Unix(1796072051, 0))
	serverFiles := former.files(t, leaf{name: "wm", serial: 10}, former)
	clientFiles := former.files(t, leaf{}, former)
	server, err := ServerTLS(clk, serverFiles, "", zap.NewNop())
	require.NoError(t, err)
	client, err := ClientTLS(clk, clientFiles, "wm", "", zap.NewNop())
	require.NoError(t, err)
	serial := func() int64 {
		state, clientErr, serverErr := handshake(t, server, client)
		require.NoError(t, clientErr)
		require.NoError(t, serverErr)
		return state.PeerCertificates[0].SerialNumber.Int64()
	}
	require.Equal(t, int64(10), serial())

	former.renew(t, serverFiles, leaf{name: "wm", serial: 11})
	assert.Equal(t, int64(10), serial(), "the files were just looked at")
	clk.SetTime(clk.Now().Add(tlsReload))
	assert.Equal(t, int64(11), serial())

	// Both sides change certificate and authority while they run.
	next.renew(t, serverFiles, leaf{name: "wm", serial: 12})
	next.renew(t, clientFiles, leaf{})
	write(t, serverFiles.CA, next.pem)
	write(t, clientFiles.CA, next.pem)
	clk.SetTime(clk.Now().Add(tlsReload))
	assert.Equal(t, int64(12), serial())

	// In the middle of a replacement the key is not the certificate's.
	_, key := next.issue(t, leaf{})
	write(t, serverFiles.Key, key)
	clk.SetTime(clk.Now().Add(tlsReload))
	assert.Equal(t, int64(12), serial(), "the former pair is kept")
	require.NoError(t, os.Remove(serverFiles.Key))
	clk.SetTime(clk.Now().Add(tlsReload))
	assert.Equal(t, int64(12), serial(), "the former pair is kept")
	next.renew(t, serverFiles, leaf{name: "wm", serial: 13})
	clk.SetTime(clk.Now().Add(tlsReload))
	assert.Equal(t, int64(13), serial())
}

func TestTLSFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	clk := clocktesting.NewFakePassiveClock(time.Unix(1796072051, 0))
	good := ca.files(t, leaf{}, ca)
	bad := filepath.Join(t.TempDir(), "bad")
	write(t, bad, []byte("no PEM"))
	for name, build := range map[string]func() (*tls.Config, error){
		"a server without a certificate": func() (*tls.Config, error) { return ServerTLS(clk, TLSFiles{}, "", zap.NewNop()) },
		"a server that checks ids without an authority": func() (*tls.Config, error) {
			return ServerTLS(clk, TLSFiles{Cert: good.Cert, Key: good.Key}, routerID, zap.NewNop())
		},
		"a file that is absent": func() (*tls.Config, error) {
			return ServerTLS(clk, TLSFiles{Cert: good.Cert, Key: "/does/not/exist"}, "", zap.NewNop())
		},
		"a certificate that is none": func() (*tls.Config, error) {
			return ServerTLS(clk, TLSFiles{Cert: bad, Key: good.Key}, "", zap.NewNop())
		},
		"an authority that is none": func() (*tls.Config, error) {
			return ServerTLS(clk, TLSFiles{Cert: good.Cert, Key: good.Key, CA: bad}, "", zap.NewNop())
		},
		"a client with half a pair": func() (*tls.Config, error) {
			return ClientTLS(clk, TLSFiles{Cert: good.Cert}, "wm", "", zap.NewNop())
		},
		"a client that does not know whom it calls": func() (*tls.Config, error) {
			return ClientTLS(clk, good, "", "", zap.NewNop())
		},
		"a client with a certificate that is none": func() (*tls.Config, error) {
			return ClientTLS(clk, TLSFiles{Cert: bad, Key: bad}, "wm", "", zap.NewNop())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := build()
			require.Error(t, err)
		})
	}
}
