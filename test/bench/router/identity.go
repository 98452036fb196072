package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/agentcube/agentcube/pkg/auth"
)

// keyBits is the size of the keys that routers make themselves.
const keyBits = 2048

// identity is an API server that knows one thing: the Secret with the routers'
// key pair. Nothing else of a cluster is needed to forward requests.
type identity struct {
	server *http.Server
	url    string
	secret *corev1.Secret
}

// serveIdentity makes the key and serves until close.
func serveIdentity(ctx context.Context) (*identity, error) {
	data, err := keyPair()
	if err != nil {
		return nil, fmt.Errorf("making the identity key: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	i := &identity{url: "http://" + listener.Addr().String(), secret: &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: auth.SecretName, UID: "identity", ResourceVersion: "1",
		},
		Data: data,
	}}
	i.server = &http.Server{Handler: i} //nolint:gosec // on loopback
	go func() { _ = i.server.Serve(listener) }()
	return i, nil
}

func (i *identity) close() { _ = i.server.Close() } // nothing is left to be lost

// ServeHTTP answers lists and watches of Secrets.
func (i *identity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case r.Method != http.MethodGet, !strings.HasSuffix(r.URL.Path, "/secrets"):
		http.NotFound(w, r)
	case query.Get("sendInitialEvents") != "":
		// Streamed first lists are not served; clients then ask for a plain one.
		answer(w, http.StatusUnprocessableEntity, &metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		})
	case query.Get("watch") != "":
		_ = http.NewResponseController(w).Flush() // whoever left waits for nothing
		<-r.Context().Done()
	default:
		answer(w, http.StatusOK, &corev1.SecretList{
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Secret{*i.secret},
		})
	}
}

func answer(w http.ResponseWriter, status int, object runtime.Object) {
	body, err := runtime.Encode(scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), object)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// keyPair is what the Secret holds.
func keyPair() (map[string][]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"private.pem": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"public.pem":  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	}, nil
}

func (i *identity) kubeconfig() []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: %q}}]
users: [{name: bench, user: {token: bench}}]
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
current-context: bench
`, i.url)
}
