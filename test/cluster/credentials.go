package cluster

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/agentcube/agentcube/test/cluster/pki"
)

// mastersGroup may do everything; RBAC does not apply to it.
const mastersGroup = "system:masters"

// tokens of the users that are no service accounts. Each is a user of its own,
// so that the API server's logs tell them apart.
type tokens struct{ admin, controllerManager, controller, node string }

func newTokens() tokens {
	return tokens{admin: rand.Text(), controllerManager: rand.Text(), controller: rand.Text(), node: rand.Text()}
}

// file is what --token-auth-file wants: token, user, uid, groups.
func (t tokens) file() []byte {
	var b strings.Builder
	for _, user := range []struct{ token, name string }{
		{t.admin, "admin"},
		{t.controllerManager, "controller-manager"},
		{t.controller, "agent-sandbox-controller"},
		{t.node, "node"},
	} {
		fmt.Fprintf(&b, "%s,%s,%s,%q\n", user.token, user.name, user.name, mastersGroup)
	}
	return []byte(b.String())
}

// writeCredentials makes the authority, the server certificate that all our
// programs share, the key that signs service account tokens, and the token file.
func (c *Cluster) writeCredentials() error {
	ca, err := pki.NewCA("agentcube-development-cluster")
	if err != nil {
		return err
	}
	serving, err := ca.Serving("127.0.0.1", "localhost", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	serviceAccounts, err := pki.SelfSigned("service-accounts")
	if err != nil {
		return err
	}
	c.ca = ca.Cert
	c.tokens = newTokens()
	dir := c.certDir()
	for _, write := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "ca.crt"), ca.Cert, 0o644) },
		// The names that a controller-runtime webhook server looks for.
		func() error { return serving.Write(dir, "tls") },
		func() error { return serviceAccounts.Write(dir, "service-accounts") },
		func() error { return os.WriteFile(filepath.Join(dir, "tokens.csv"), c.tokens.file(), 0o600) },
	} {
		if err := write(); err != nil {
			return fmt.Errorf("writing credentials: %w", err)
		}
	}
	return nil
}

// restConfig returns a configuration for a bearer token, without rate limits.
func (c *Cluster) restConfig(server, token string) *rest.Config {
	return &rest.Config{
		Host:            server,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca},
		QPS:             -1,
		UserAgent:       "agentcube-development-cluster",
	}
}

// writeKubeconfig stores a kubeconfig for a bearer token and returns its path.
func (c *Cluster) writeKubeconfig(name, namespace, token string) (string, error) {
	const context = "agentcube-development-cluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[context] = &clientcmdapi.Cluster{Server: c.config.Host, CertificateAuthorityData: c.ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[context] = &clientcmdapi.Context{Cluster: context, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = context
	path := filepath.Join(c.kubeconfigDir(), name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
	}
	return path, nil
}
