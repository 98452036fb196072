package auth

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sieve"
)

// cachedTokens bounds the memory of the cache: a token is under 1 KiB. There
// are as many as rows that a router remembers, since a token that was dropped
// is signed anew for the next request.
const cachedTokens = 131_072

// Signer is the router's half of the identity: it owns the key pair in the
// Secret and signs with it. Replicas share the Secret, and so the key.
//
// A key that was replaced is kept for as long as the process lives, since a
// sandbox reads its key once, at its start. Deleting the Secret rotates.
type Signer struct {
	clk       clock.WithTicker
	client    kubernetes.Interface
	namespace string
	log       *zap.Logger

	// Made but not known to be stored; kept so that a create whose answer was
	// lost is repeated with the same key. Used by Run only.
	pending map[string][]byte
	retry   time.Duration

	mu      sync.RWMutex
	current string // id; guarded by mu
	// keys by id, the current one and its predecessors; guarded by mu.
	keys map[string]signingKey

	seed       maphash.Seed
	tokensMu   sync.RWMutex // guards what follows
	tokens     *sieve.Map[tokenIndex, signedToken]
	identities map[identity]*identity
	signing    singleflight.Group
}

// NewSigner makes a Signer that holds no key until Run has found or made one
// in the namespace.
func NewSigner(clk clock.WithTicker, client kubernetes.Interface, namespace string, log *zap.Logger) *Signer {
	return &Signer{
		clk: clk, client: client, namespace: namespace, log: log,
		keys: map[string]signingKey{}, seed: maphash.MakeSeed(),
		tokens: sieve.New[tokenIndex, signedToken](cachedTokens), identities: map[identity]*identity{},
	}
}

// Run follows the Secret and makes it where there is none, until ctx ends. An
// API server out of reach is waited for.
func (s *Signer) Run(ctx context.Context) error {
	watch, err := newSecretWatch(s.client, s.namespace, s.log, entryPrivate, entryPublic)
	if err != nil {
		return err
	}
	watch.follow(ctx, s.clk, func() time.Duration {
		if data, ok := watch.data(); ok {
			s.install(data)
			return 0
		}
		return s.create(ctx)
	})
	return nil
}

// KeyID names the key that new tokens are signed with; false while there is
// none.
func (s *Signer) KeyID() (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.current, s.current != ""
}

// create makes the Secret, or reads the one another replica was faster with.
// It returns how long to wait before the next attempt, or zero.
func (s *Signer) create(ctx context.Context) time.Duration {
	data, err := s.createOrRead(ctx)
	if err != nil {
		s.retry = min(max(2*s.retry, secretRetryMin), secretRetryMax)
		if ctx.Err() == nil {
			s.log.Warn("identity secret not made, trying again",
				zap.String("namespace", s.namespace), zap.Duration("in", s.retry), zap.Error(err))
		}
		return s.retry
	}
	s.pending, s.retry = nil, 0
	s.install(data)
	return 0
}

func (s *Signer) createOrRead(ctx context.Context) (map[string][]byte, error) {
	if s.pending == nil {
		pair, err := generatePair()
		if err != nil {
			return nil, err
		}
		s.pending = pair
	}
	call, cancel := context.WithTimeout(ctx, secretCallTimeout)
	defer cancel()
	secrets := s.client.CoreV1().Secrets(s.namespace)
	made, err := secrets.Create(call, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: SecretName},
		Type:       corev1.SecretTypeOpaque,
		Data:       s.pending,
	}, metav1.CreateOptions{})
	if err == nil {
		return made.Data, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating secret %s: %w", SecretName, err)
	}
	found, err := secrets.Get(call, SecretName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", SecretName, err)
	}
	return found.Data, nil
}

// install makes the pair the current one. A Secret that holds no usable pair
// changes nothing: the former key still serves every sandbox that got it.
func (s *Signer) install(data map[string][]byte) {
	pair, err := parsePair(data)
	if err != nil {
		s.log.Error("identity secret is not usable; replace or delete it",
			zap.String("namespace", s.namespace), zap.String("secret", SecretName), zap.Error(err))
		return
	}
	s.mu.Lock()
	former := s.current
	s.current, s.keys[pair.id] = pair.id, pair
	s.mu.Unlock()
	if former != pair.id {
		s.log.Info("identity key loaded", zap.String("key", pair.id), zap.String("former", former))
	}
}

// key finds a key by id; an empty id means the current one.
func (s *Signer) key(id string) (signingKey, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.current == "" {
		return signingKey{}, ErrNoKey
	}
	if id == "" {
		id = s.current
	}
	key, ok := s.keys[id]
	if !ok {
		return signingKey{}, fmt.Errorf("key %s: %w", id, ErrUnknownKey)
	}
	return key, nil
}
