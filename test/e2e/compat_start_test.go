package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/system"
)

// Of the recorded command lines only --port=8080 is another number here, since
// several programs share this machine; a later flag wins.
func recordedCommandLines(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	const domain = "AGENTCUBE_SPIFFE_TRUST_DOMAIN=cluster.example"
	manager := e.start(t, launch{
		name: "workload-manager", args: []string{"--runtime-class-name=", "-v=2", "--logtostderr"}, env: []string{domain},
	})
	router := e.start(t, launch{
		name: "router", args: []string{"--debug", "-v=2", "--logtostderr"},
		env: []string{domain, "WORKLOAD_MANAGER_URL=" + manager.url},
	})
	a := mustSend(t, http.MethodGet, e.at(router, e.invocations(agentRuntime, "echo"))+"/x", nil, "")
	require.Equal(t, http.StatusOK, a.status, a)
	for _, p := range []*program{manager, router} {
		output, err := p.Output()
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(output), "--logtostderr: ignored"), "warnings of %s", p.Name())
	}
}

func recordedMTLS(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	const domain = "AGENTCUBE_SPIFFE_TRUST_DOMAIN=cluster.example"
	id := "spiffe://cluster.example/ns/" + system.Namespace + "/sa/"
	authority := newAuthority(t)
	ours, theirs := authority.issue(t, id+"workload-manager"), authority.issue(t, id+"router")
	manager := e.start(t, launch{
		name: "workload-manager",
		args: []string{"--runtime-class-name=", "--tls-cert=" + ours.cert, "--tls-key=" + ours.key, "--tls-ca=" + authority.file},
		env:  []string{domain}, tls: authority.client(t, theirs),
	})
	router := e.start(t, launch{
		name: "router",
		args: []string{"--debug", "--mtls-cert=" + theirs.cert, "--mtls-key=" + theirs.key, "--mtls-ca=" + authority.file},
		// Existing installations leave http in the URL.
		env: []string{domain, "WORKLOAD_MANAGER_URL=" + strings.Replace(manager.url, "https", "http", 1)},
	})
	a := mustSend(t, http.MethodGet, e.at(router, e.invocations(agentRuntime, "echo"))+"/x", nil, "")
	require.Equal(t, http.StatusOK, a.status, a)

	stranger := authority.issue(t, id+"stranger")
	for what, config := range map[string]*tls.Config{
		"no certificate":                  authority.client(t, certificate{}),
		"another id":                      authority.client(t, stranger),
		"a certificate of another issuer": authority.client(t, newAuthority(t).issue(t, id+"router")),
	} {
		assert.Error(t, answers(manager.url+"/livez", config)(t.Context()), "%s is let in", what)
	}
}

func recordedOIDC(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	router := e.start(t, launch{name: "router", args: []string{
		"--debug", "--jwt-issuer-url=http://" + closedPort(t) + "/realms/agentcube", "--jwt-audience=agentcube",
		"--jwt-role-claim=realm_access.roles", "--jwt-required-role=user",
	}})
	for _, path := range []string{"/livez", "/readyz", "/health/live", "/health/ready"} {
		assert.Equal(t, http.StatusOK, mustSend(t, http.MethodGet, router.url+path, nil, "").status, path)
	}
	url := e.at(router, e.invocations(agentRuntime, "echo")) + "/x"
	routerRefuses(t, mustSend(t, http.MethodGet, url, nil, ""), http.StatusUnauthorized, api.CodeUnauthorized)
	// Whether a token is good cannot be known now, which is no fault of the caller's.
	a := mustSend(t, http.MethodGet, url, headers("Authorization", "Bearer x.y.z"), "")
	assert.Contains(t, []int{http.StatusUnauthorized, http.StatusServiceUnavailable}, a.status, a)
	assert.Empty(t, e.rows(t), "a session was made for nobody")
}

func badConfiguration(t *testing.T, e *env) {
	for name, c := range map[string]struct {
		args     []string
		env      []string
		problems []string
	}{
		"router": {
			args: []string{
				"--port=99999", "--nonsense", "--max-concurrent-requests=-1", "--mtls-cert=/nowhere.crt",
				"--jwt-required-role=user", "--jwt-audience=x", "--dial-timeout=soon", "--trusted-proxies=here",
				"--log-level=loud", "surplus",
			},
			env: []string{"REDIS_ADDR=nowhere", "AGENTCUBE_SPIFFE_TRUST_DOMAIN=Not A Domain", "AGENTCUBE_NAMESPACE=Not_A_Name"},
			problems: []string{
				"--port", "--nonsense", "--max-concurrent-requests", "--mtls-key", "--mtls-ca", "--jwt-required-role",
				"--jwt-audience", "--dial-timeout", "--trusted-proxies", "--log-level", "surplus", "--redis-addr",
				"--redis-password", "--spiffe-trust-domain", "--namespace", "--workload-manager-url",
			},
		},
		"workload-manager": {
			args: []string{"--port=-1", "--nonsense=x", "--enable-tls", "--create-timeout=0s", "--cluster-qps=0", "--collect-interval=-1s"},
			env:  []string{"STORE_TYPE=memcached"},
			problems: []string{
				"--port", "--nonsense", "--tls-cert", "--tls-key", "--create-timeout", "--cluster-qps",
				"--collect-interval", "--store-type",
			},
		},
	} {
		command := exec.CommandContext(t.Context(), e.binary(name), c.args...)
		command.Env = c.env
		output, err := command.CombinedOutput()
		exit, failed := errors.AsType[*exec.ExitError](err)
		require.True(t, failed, "%s starts: %v\n%s", name, err, output)
		assert.Equal(t, 2, exit.ExitCode(), "%s: wrong usage", name)
		for _, problem := range c.problems {
			assert.Contains(t, string(output), problem, "%s", name)
		}
	}
}

// authority issues workload certificates as SPIFFE has them: an id in the
// place of a host name, for both ends of a connection.
type authority struct {
	dir, file string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

// certificate names PEM files; the zero value is none.
type certificate struct{ cert, key string }

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.file = filepath.Join(a.dir, "ca.crt")
	a.cert, a.key = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.file)
	return a
}

func (a *authority) issue(t *testing.T, id string) certificate {
	t.Helper()
	uri, err := url.Parse(id)
	require.NoError(t, err)
	name := filepath.Join(a.dir, filepath.Base(id))
	c := certificate{cert: name + ".crt", key: name + ".key"}
	_, key := a.sign(t, &x509.Certificate{
		URIs: []*url.URL{uri}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, c.cert)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	return c
}

// sign writes a certificate for a new key; the first one signs itself.
func (a *authority) sign(t *testing.T, template *x509.Certificate, file string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert, key
}

// client trusts the authority and shows the certificate.
func (a *authority) client(t *testing.T, c certificate) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.cert)
	if c != (certificate{}) {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		require.NoError(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}
