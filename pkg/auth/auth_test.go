package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	namespace = "agentcube"
	sessionID = "886591bd-c5fa-49d7-b305-c7e58ec0b971"
)

// keyOne and keyTwo are made once: two thousand bits take their time.
var (
	keyOne = sync.OnceValue(mustKey)
	keyTwo = sync.OnceValue(mustKey)
)

func mustKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		panic(err)
	}
	return key
}

func pairOf(t *testing.T, key *rsa.PrivateKey) map[string][]byte {
	t.Helper()
	pair, err := encodePair(key)
	require.NoError(t, err)
	return pair
}

func secretOf(t *testing.T, key *rsa.PrivateKey) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName}, Data: pairOf(t, key),
	}
}

func idOf(t *testing.T, key *rsa.PrivateKey) string {
	t.Helper()
	id, err := fingerprint(&key.PublicKey)
	require.NoError(t, err)
	return id
}

// claimsOf checks the signature and returns what the token says.
func claimsOf(t *testing.T, token string, key *rsa.PublicKey) (header map[string]any, claims jwt.MapClaims) {
	t.Helper()
	claims = jwt.MapClaims{}
	parsed, err := jwt.NewParser(jwt.WithoutClaimsValidation()).ParseWithClaims(token, claims,
		func(*jwt.Token) (any, error) { return key, nil })
	require.NoError(t, err)
	return parsed.Header, claims
}

// signerWith holds a key without Run.
func signerWith(t *testing.T, clk clock.WithTicker, key *rsa.PrivateKey) *Signer {
	t.Helper()
	s := NewSigner(clk, fake.NewClientset(), namespace, zap.NewNop())
	s.install(pairOf(t, key))
	return s
}

func verifierWith(t *testing.T, clk clock.WithTicker, key *rsa.PrivateKey) *Verifier {
	t.Helper()
	v := NewVerifier(clk, fake.NewClientset(), namespace, zap.NewNop())
	v.install(pairOf(t, key), true)
	return v
}

func TestSandboxTokenHasExactlyTheClaimsOfTheContract(t *testing.T) {
	t.Parallel()
	now := time.Unix(1796072051, 0)
	s := signerWith(t, clocktesting.NewFakeClock(now), keyOne())

	token, err := sandboxToken(s, sessionID, "", Principal{})
	require.NoError(t, err)
	header, claims := claimsOf(t, token, &keyOne().PublicKey)
	assert.Equal(t, map[string]any{"alg": "RS256", "typ": "JWT"}, header)
	want := jwt.MapClaims{
		"iss": "agentcube-router", "aud": sessionID, "session_id": sessionID,
		"iat": 1796072051.0, "exp": 1796072351.0,
	}
	assert.Equal(t, want, claims)

	token, err = sandboxToken(s, sessionID, "", Principal{Subject: "u", Email: "u@example.com", Roles: []string{"r"}})
	require.NoError(t, err)
	_, claims = claimsOf(t, token, &keyOne().PublicKey)
	want["user_sub"], want["user_email"] = "u", "u@example.com"
	assert.Equal(t, want, claims)
}

func TestSandboxTokenIsMadeOnceAndRenewedBeforeItExpires(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1796072051, 0))
	s := signerWith(t, clk, keyOne())
	token := func(session, subject string) string {
		text, err := sandboxToken(s, session, "", Principal{Subject: subject})
		require.NoError(t, err)
		return text
	}
	first := token(sessionID, "u")
	clk.Step(4 * time.Minute)
	assert.Equal(t, first, token(sessionID, "u"), "a minute is left")
	assert.NotEqual(t, first, token("f"+sessionID[1:], "u"))
	assert.NotEqual(t, token("another", "u"), token("yet another", "u"), "what is no id stands for no other")
	assert.NotEqual(t, first, token(sessionID, "v"), "a token names its own user only")

	clk.Step(time.Second)
	renewed := token(sessionID, "u")
	require.NotEqual(t, first, renewed)
	_, claims := claimsOf(t, renewed, &keyOne().PublicKey)
	assert.InDelta(t, clk.Now().Add(5*time.Minute).Unix(), claims["exp"], 0)
}

func TestTokenCacheIsBounded(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	s := signerWith(t, clk, keyOne())
	for i := range cachedTokens + 1 {
		s.keep(tokenKey{session: fmt.Sprintf("00000000-0000-4000-8000-%012d", i)}, "", 0)
	}
	assert.Equal(t, cachedTokens, s.tokens.Len())
}

func TestTokensAreSharedByConcurrentRequests(t *testing.T) {
	t.Parallel()
	s := signerWith(t, clocktesting.NewFakeClock(time.Unix(1796072051, 0)), keyOne())
	var group sync.WaitGroup
	tokens := make([]string, 50)
	for i := range tokens {
		group.Go(func() { tokens[i], _ = sandboxToken(s, sessionID, "", Principal{}) })
	}
	group.Wait()
	for _, token := range tokens {
		assert.Equal(t, tokens[0], token)
	}
	assert.NotEmpty(t, tokens[0])
}

func TestSignerAsksForAKeyItHolds(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1796072051, 0))
	empty := NewSigner(clk, fake.NewClientset(), namespace, zap.NewNop())
	_, err := sandboxToken(empty, sessionID, "", Principal{})
	require.ErrorIs(t, err, ErrNoKey)
	_, err = empty.IdentityToken("owner")
	require.ErrorIs(t, err, ErrNoKey)
	_, ok := empty.KeyID()
	assert.False(t, ok)

	s := signerWith(t, clk, keyOne())
	_, err = sandboxToken(s, sessionID, "0123456789abcdef", Principal{})
	require.ErrorIs(t, err, ErrUnknownKey)
}

func TestFormerKeysStillSign(t *testing.T) {
	t.Parallel()
	s := signerWith(t, clocktesting.NewFakeClock(time.Unix(1796072051, 0)), keyOne())
	s.install(pairOf(t, keyTwo()))
	for _, test := range []struct {
		id  string
		key *rsa.PrivateKey
	}{{"", keyTwo()}, {idOf(t, keyTwo()), keyTwo()}, {idOf(t, keyOne()), keyOne()}} {
		token, err := sandboxToken(s, sessionID, test.id, Principal{})
		require.NoError(t, err)
		claimsOf(t, token, &test.key.PublicKey)
	}
}

func TestIdentityTokens(t *testing.T) {
	t.Parallel()
	now := time.Unix(1796072051, 0)
	sign := func(method jwt.SigningMethod, key any, change func(jwt.MapClaims)) string {
		claims := jwt.MapClaims{"sub": "owner", "aud": "workloadmanager", "exp": now.Add(time.Minute).Unix()}
		if change != nil {
			change(claims)
		}
		token, err := jwt.NewWithClaims(method, claims).SignedString(key)
		require.NoError(t, err)
		return token
	}
	rs256 := func(change func(jwt.MapClaims)) string { return sign(jwt.SigningMethodRS256, keyOne(), change) }
	public := pairOf(t, keyOne())[entryPublic]
	for name, test := range map[string]struct {
		token string
		ok    bool
	}{
		"good":                             {rs256(nil), true},
		"one of several audiences":         {rs256(func(c jwt.MapClaims) { c["aud"] = []string{"x", "workloadmanager"} }), true},
		"expired within the skew":          {rs256(func(c jwt.MapClaims) { c["exp"] = now.Add(-29 * time.Second).Unix() }), true},
		"expired beyond the skew":          {rs256(func(c jwt.MapClaims) { c["exp"] = now.Add(-30 * time.Second).Unix() }), false},
		"without an end":                   {rs256(func(c jwt.MapClaims) { delete(c, "exp") }), false},
		"for a sandbox":                    {rs256(func(c jwt.MapClaims) { c["aud"] = sessionID }), false},
		"for nobody":                       {rs256(func(c jwt.MapClaims) { delete(c, "aud") }), false},
		"without an owner":                 {rs256(func(c jwt.MapClaims) { delete(c, "sub") }), false},
		"of an owner that is no text":      {rs256(func(c jwt.MapClaims) { c["sub"] = 7 }), false},
		"not valid before a minute's time": {rs256(func(c jwt.MapClaims) { c["nbf"] = now.Add(time.Minute).Unix() }), false},
		"not signed":                       {sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil), false},
		"HS256 with the public key":        {sign(jwt.SigningMethodHS256, public, nil), false},
		"RS512":                            {sign(jwt.SigningMethodRS512, keyOne(), nil), false},
		"PS256":                            {sign(jwt.SigningMethodPS256, keyOne(), nil), false},
		"of another key":                   {sign(jwt.SigningMethodRS256, keyTwo(), nil), false},
		"empty":                            {"", false},
		"garbage":                          {"a.b.c", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := clocktesting.NewFakeClock(now)
			owner, err := verifierWith(t, clk, keyOne()).VerifyIdentity(test.token)
			if test.ok {
				require.NoError(t, err)
				assert.Equal(t, "owner", owner)
			} else {
				require.ErrorIs(t, err, ErrInvalidToken)
				assert.Empty(t, owner)
			}
			_, err = NewVerifier(clk, fake.NewClientset(), namespace, zap.NewNop()).VerifyIdentity(test.token)
			require.ErrorIs(t, err, ErrNoKey, "without a key nothing can be said of a token")
		})
	}
}

func TestTheWorkloadManagerBelievesTheRouter(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1796072051, 0))
	s, v := signerWith(t, clk, keyOne()), verifierWith(t, clk, keyOne())
	token, err := s.IdentityToken("owner of it")
	require.NoError(t, err)
	owner, err := v.VerifyIdentity(token)
	require.NoError(t, err)
	assert.Equal(t, "owner of it", owner)

	id, ok := s.KeyID()
	require.True(t, ok)
	assert.Equal(t, id, v.KeyID())

	forSandbox, err := sandboxToken(s, "workloadmanager", "", Principal{Subject: "x"})
	require.NoError(t, err)
	_, err = v.VerifyIdentity(forSandbox)
	require.ErrorIs(t, err, ErrInvalidToken, "a sandbox's token is no identity token")
}

func TestASecretThatVanishesAfterALostRaceIsMadeInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		lost := false
		client.PrependReactor("create", "secrets", func(ktesting.Action) (bool, runtime.Object, error) {
			if lost {
				return false, nil, nil
			}
			lost = true
			return true, nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, SecretName)
		})
		s := NewSigner(clock.RealClock{}, client, namespace, zap.NewNop())
		run(t, func() { assert.NoError(t, s.Run(t.Context())) })
		synctest.Wait()
		_, ok := s.KeyID()
		require.False(t, ok)
		advance(t, time.Second)
		_, ok = s.KeyID()
		assert.True(t, ok)
	})
}

func TestSecretsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	good, other := pairOf(t, keyOne()), pairOf(t, keyTwo())
	for name, test := range map[string]struct {
		data   map[string][]byte
		public bool // the public half alone is good
	}{
		"empty":                         {map[string][]byte{}, false},
		"no private half":               {map[string][]byte{entryPublic: good[entryPublic]}, true},
		"no public half":                {map[string][]byte{entryPrivate: good[entryPrivate]}, false},
		"halves of two keys":            {map[string][]byte{entryPrivate: good[entryPrivate], entryPublic: other[entryPublic]}, true},
		"private half is no key":        {map[string][]byte{entryPrivate: []byte("x"), entryPublic: good[entryPublic]}, true},
		"public half is no key":         {map[string][]byte{entryPrivate: good[entryPrivate], entryPublic: []byte("x")}, false},
		"a key too small to be safe":    {pairOf(t, small), false},
		"the private half in its place": {map[string][]byte{entryPublic: good[entryPrivate]}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := clocktesting.NewFakeClock(time.Unix(1796072051, 0))
			_, err := parsePair(test.data)
			require.Error(t, err)
			_, err = parsePublic(test.data)
			assert.Equal(t, test.public, err == nil)

			s := signerWith(t, clk, keyTwo())
			s.install(test.data)
			id, _ := s.KeyID()
			assert.Equal(t, idOf(t, keyTwo()), id, "the former key is kept")
			if !test.public {
				v := verifierWith(t, clk, keyTwo())
				v.install(test.data, true)
				assert.Equal(t, idOf(t, keyTwo()), v.KeyID(), "the former key is kept")
			}
		})
	}
}

func TestTheVerifierNeverHoldsThePrivateKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watch, err := newSecretWatch(fake.NewClientset(secretOf(t, keyOne())), namespace, zap.NewNop(), entryPublic)
		require.NoError(t, err)
		run(t, func() { watch.follow(t.Context(), clock.RealClock{}, func() time.Duration { return 0 }) })
		synctest.Wait()
		data, ok := watch.data()
		require.True(t, ok)
		assert.Equal(t, map[string][]byte{entryPublic: pairOf(t, keyOne())[entryPublic]}, data)
	})
}

// run starts f, which ends with the test's context, and waits for it.
func run(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	t.Cleanup(func() { <-done })
}

func TestTheSecretIsMadeOnceAmongReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		// Both see no Secret; the other replica's create is always the faster.
		client.PrependReactor("create", "secrets", func(ktesting.Action) (bool, runtime.Object, error) {
			err := client.Tracker().Add(secretOf(t, keyTwo()))
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return true, nil, err
			}
			return true, nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, SecretName)
		})
		s := NewSigner(clock.RealClock{}, client, namespace, zap.NewNop())
		run(t, func() { assert.NoError(t, s.Run(t.Context())) })
		synctest.Wait()
		id, ok := s.KeyID()
		require.True(t, ok)
		assert.Equal(t, idOf(t, keyTwo()), id)
	})
}

func TestTwoReplicasShareOneKeyWithTheWorkloadManager(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		v := NewVerifier(clock.RealClock{}, client, namespace, zap.NewNop())
		run(t, func() { assert.NoError(t, v.Run(t.Context())) })
		synctest.Wait()
		_, ok := v.PublicKey()
		require.False(t, ok, "the Secret is waited for")
		changed := v.Changed()

		one := NewSigner(clock.RealClock{}, client, namespace, zap.NewNop())
		two := NewSigner(clock.RealClock{}, client, namespace, zap.NewNop())
		for _, s := range []*Signer{one, two} {
			run(t, func() { assert.NoError(t, s.Run(t.Context())) })
		}
		synctest.Wait()
		id, ok := one.KeyID()
		require.True(t, ok)
		other, _ := two.KeyID()
		assert.Equal(t, id, other)
		assert.Equal(t, id, v.KeyID())
		requireClosed(t, changed)

		secret, err := client.CoreV1().Secrets(namespace).Get(t.Context(), SecretName, metav1.GetOptions{})
		require.NoError(t, err)
		pem, ok := v.PublicKey()
		require.True(t, ok)
		assert.Equal(t, string(secret.Data["public.pem"]), pem)
		assert.Contains(t, string(secret.Data["private.pem"]), "BEGIN RSA PRIVATE KEY", "PKCS#1")
		assert.Contains(t, pem, "BEGIN PUBLIC KEY", "PKIX")
	})
}

func requireClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	default:
		require.Fail(t, "the change was not told")
	}
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(secretOf(t, keyOne()))
		secrets := client.CoreV1().Secrets(namespace)
		s := NewSigner(clock.RealClock{}, client, namespace, zap.NewNop())
		v := NewVerifier(clock.RealClock{}, client, namespace, zap.NewNop())
		run(t, func() { assert.NoError(t, s.Run(t.Context())) })
		run(t, func() { assert.NoError(t, v.Run(t.Context())) })
		synctest.Wait()
		require.Equal(t, idOf(t, keyOne()), v.KeyID())
		former, err := s.IdentityToken("owner")
		require.NoError(t, err)

		changed := v.Changed()
		_, err = secrets.Update(t.Context(), secretOf(t, keyTwo()), metav1.UpdateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		requireClosed(t, changed)
		id, _ := s.KeyID()
		assert.Equal(t, idOf(t, keyTwo()), id)
		assert.Equal(t, idOf(t, keyTwo()), v.KeyID())
		_, err = v.VerifyIdentity(former)
		require.ErrorIs(t, err, ErrInvalidToken, "the key was taken back")
		token, err := s.IdentityToken("owner")
		require.NoError(t, err)
		_, err = v.VerifyIdentity(token)
		require.NoError(t, err)

		require.NoError(t, secrets.Delete(t.Context(), SecretName, metav1.DeleteOptions{}))
		synctest.Wait()
		id, _ = s.KeyID()
		assert.NotEqual(t, idOf(t, keyTwo()), id, "a deleted Secret is made anew")
		assert.Equal(t, id, v.KeyID())
		_, err = sandboxToken(s, sessionID, idOf(t, keyOne()), Principal{})
		require.NoError(t, err, "sandboxes that got the first key are still served")
	})
}

func TestADeletedSecretTakesTheVerifiersKeyAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(secretOf(t, keyOne()))
		v := NewVerifier(clock.RealClock{}, client, namespace, zap.NewNop())
		run(t, func() { assert.NoError(t, v.Run(t.Context())) })
		synctest.Wait()
		changed := v.Changed()
		require.NoError(t, client.CoreV1().Secrets(namespace).Delete(t.Context(), SecretName, metav1.DeleteOptions{}))
		synctest.Wait()
		requireClosed(t, changed)
		_, ok := v.PublicKey()
		assert.False(t, ok)
		assert.Empty(t, v.KeyID())
	})
}

func TestAnAPIServerOutOfReachIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, verb := range map[string]string{
		"for the first list": "list", "for the create": "create", "for the read": "get", "for all": "*",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				var mu sync.Mutex
				down := true
				client.PrependReactor("*", "secrets", func(action ktesting.Action) (bool, runtime.Object, error) {
					mu.Lock()
					defer mu.Unlock()
					if down && (verb == "*" || verb == action.GetVerb()) {
						return true, nil, errors.New("connection refused")
					}
					return false, nil, nil
				})
				s := NewSigner(clock.RealClock{}, client, namespace, zap.NewNop())
				run(t, func() { assert.NoError(t, s.Run(t.Context())) })
				advance(t, 5*time.Minute)
				_, ok := s.KeyID()
				require.False(t, ok)
				mu.Lock()
				down = false
				mu.Unlock()
				advance(t, time.Minute)
				_, ok = s.KeyID()
				assert.True(t, ok)
			})
		})
	}
}

// advance lets time pass in a bubble.
func advance(t *testing.T, d time.Duration) {
	t.Helper()
	timer := clock.RealClock{}.NewTimer(d)
	<-timer.C()
	synctest.Wait()
}

func FuzzVerifyIdentity(f *testing.F) {
	now := time.Unix(1796072051, 0)
	clk := clocktesting.NewFakeClock(now)
	v := NewVerifier(clk, fake.NewClientset(), namespace, zap.NewNop())
	pair, err := encodePair(keyOne())
	require.NoError(f, err)
	v.install(pair, true)
	good, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"sub": "owner", "aud": "workloadmanager", "exp": now.Add(time.Minute).Unix(),
	}).SignedString(keyOne())
	require.NoError(f, err)
	f.Add(good)
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		owner, err := v.VerifyIdentity(token)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalidToken)
			require.Empty(t, owner)
			return
		}
		// Nobody but the holder of the key can make another good one.
		require.Equal(t, "owner", owner)
	})
}

// sandboxToken is the token of an Authorization for a sandbox.
func sandboxToken(s *Signer, session, keyID string, user Principal) (string, error) {
	value, err := s.SandboxAuthorization(session, keyID, user)
	return strings.TrimPrefix(value, "Bearer "), err
}
