package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, p Pair) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	require.NoError(t, err, "the key belongs to the certificate")
	return pair.Leaf
}

func TestAServingCertificateIsTrustedForItsHostsByItsAuthorityOnly(t *testing.T) {
	t.Parallel()
	ours, err := NewCA("ours")
	require.NoError(t, err)
	other, err := NewCA("other")
	require.NoError(t, err)
	pair, err := ours.Serving("127.0.0.1", "localhost")
	require.NoError(t, err)
	cert := parse(t, pair)

	trust := func(ca *CA, host string) error {
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(ca.Cert))
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
		return err
	}
	require.NoError(t, trust(ours, "127.0.0.1"))
	require.NoError(t, trust(ours, "localhost"))
	require.Error(t, trust(ours, "example.com"))
	require.Error(t, trust(other, "localhost"))
}

func TestASelfSignedCertificateIsItsOwnAuthority(t *testing.T) {
	t.Parallel()
	pair, err := SelfSigned("localhost")
	require.NoError(t, err)
	cert := parse(t, pair)
	assert.Equal(t, cert.Subject.String(), cert.Issuer.String())
	assert.NoError(t, cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature))
}

func TestOnlyTheOwnerMayReadAWrittenKey(t *testing.T) {
	t.Parallel()
	pair, err := SelfSigned("localhost")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, pair.Write(dir, "tls"))
	_, err = tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, "tls.key"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
