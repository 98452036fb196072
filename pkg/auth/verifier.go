package auth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Verifier is the workload-manager's half of the identity: the public key,
// which sandboxes are given, and the check of the router's tokens. It never
// holds the private key.
type Verifier struct {
	clk       clock.WithTicker
	client    kubernetes.Interface
	namespace string
	log       *zap.Logger
	parser    *jwt.Parser

	mu      sync.RWMutex
	current publicKey     // zero: none; guarded by mu
	changed chan struct{} // closed at the next change; guarded by mu
}

// NewVerifier makes a Verifier that has no key until Run has read one in the
// namespace.
func NewVerifier(clk clock.WithTicker, client kubernetes.Interface, namespace string, log *zap.Logger) *Verifier {
	return &Verifier{
		clk: clk, client: client, namespace: namespace, log: log,
		changed: make(chan struct{}),
		parser: jwt.NewParser(
			// Anything but RS256 would let the public key, which every sandbox
			// has, be used as a shared secret.
			jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}),
			jwt.WithAudience(audienceWorkloadManager),
			jwt.WithExpirationRequired(),
			jwt.WithLeeway(maxSkew),
			jwt.WithTimeFunc(clk.Now),
		),
	}
}

// Run follows the Secret until ctx ends. Its absence, and an API server out
// of reach, are waited for.
func (v *Verifier) Run(ctx context.Context) error {
	watch, err := newSecretWatch(v.client, v.namespace, v.log, entryPublic)
	if err != nil {
		return err
	}
	watch.follow(ctx, v.clk, func() time.Duration {
		data, ok := watch.data()
		v.install(data, ok)
		return 0
	})
	return nil
}

// PublicKey is the key as the Secret holds it, in PEM; false while there is
// none.
func (v *Verifier) PublicKey() (pem string, ok bool) {
	pem, _, ok = v.Key()
	return pem, ok
}

// KeyID names the key; empty while there is none.
func (v *Verifier) KeyID() string {
	_, id, _ := v.Key()
	return id
}

// Key is PublicKey and KeyID of one and the same key.
func (v *Verifier) Key() (pem, keyID string, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.current.pem, v.current.id, v.current.key != nil
}

// Changed returns a channel that is closed when the key next changes. Take it
// before reading the key, and take another after each change.
func (v *Verifier) Changed() <-chan struct{} {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.changed
}

// VerifyIdentity returns the owner a token of the router names. Errors:
// ErrNoKey while there is no key, ErrInvalidToken for whatever else.
func (v *Verifier) VerifyIdentity(token string) (owner string, err error) {
	v.mu.RLock()
	key := v.current.key
	v.mu.RUnlock()
	if key == nil {
		return "", ErrNoKey
	}
	var claims jwt.RegisteredClaims
	_, err = v.parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return key, nil })
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	if claims.Subject == "" {
		return "", fmt.Errorf("%w: it names no owner", ErrInvalidToken)
	}
	return claims.Subject, nil
}

// install takes what the Secret says now. A Secret without a usable key
// changes nothing, as with the Signer; one that is gone takes its key along,
// since the router is about to make another.
func (v *Verifier) install(data map[string][]byte, present bool) {
	var key publicKey
	if present {
		var err error
		if key, err = parsePublic(data); err != nil {
			v.log.Error("identity secret is not usable; replace or delete it",
				zap.String("namespace", v.namespace), zap.String("secret", SecretName), zap.Error(err))
			return
		}
	}
	v.mu.Lock()
	former := v.current
	v.current = key
	if former.pem != key.pem {
		close(v.changed)
		v.changed = make(chan struct{})
	}
	v.mu.Unlock()
	if former.id != key.id {
		v.log.Info("identity key changed", zap.String("key", key.id), zap.String("former", former.id))
	}
}
