package auth

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/agentcube/agentcube/pkg/session"
)

const (
	issuerRouter            = "agentcube-router"
	audienceWorkloadManager = "workloadmanager"
	bearerPrefix            = "Bearer "
	// tokenLife is the time from iat to exp.
	tokenLife = 5 * time.Minute
	// tokenRenewal: a cached token with less than this left is made anew, so
	// that it outlasts the request it is sent with.
	tokenRenewal = time.Minute
	// maxSkew is how far the clocks of router and workload-manager may differ.
	maxSkew = 30 * time.Second
)

// tokenKey is everything a token depends on besides the time.
type tokenKey struct {
	// session is empty if the identity says so.
	session string
	identity
}

// identity is what tokens of many sessions have in common: who signed, and for
// whom.
type identity struct {
	key, subject, email string
	// manager: the token is for the workload-manager, and of no session.
	manager bool
}

// signedToken is small: a router holds one for each session in use.
type signedToken struct {
	text    string
	expires int64 // unix seconds
	*identity
}

// tokenIndex finds a token. It holds no pointer, unlike the tokenKey it stands
// for; whether the token found is the right one is seen by its
// identity.
type tokenIndex struct {
	session  session.Key
	identity uint64
}

// index returns false if no token of that key can be kept.
func (s *Signer) index(k tokenKey) (tokenIndex, bool) {
	id, valid := session.KeyOf(k.session)
	return tokenIndex{session: id, identity: maphash.Comparable(s.seed, k.identity)}, valid || k.manager
}

// SandboxAuthorization is the Authorization, a bearer token, for the sandbox
// of a session, signed with the key the session's row names; an empty keyID is
// the current key. The
// user's subject and email are told where they are known. One signature
// serves a session for minutes.
//
// Errors: ErrNoKey before the first key is loaded, ErrUnknownKey when this
// process never held the key.
func (s *Signer) SandboxAuthorization(sessionID, keyID string, user Principal) (string, error) {
	return s.token(keyID, tokenKey{
		session: sessionID, identity: identity{subject: user.Subject, email: user.Email},
	}, func(k tokenKey, c jwt.MapClaims) {
		c["session_id"] = k.session
		if k.subject != "" {
			c["user_sub"] = k.subject
		}
		if k.email != "" {
			c["user_email"] = k.email
		}
	})
}

// IdentityToken tells the workload-manager who the owner of a session is.
// Errors: ErrNoKey.
func (s *Signer) IdentityToken(owner string) (string, error) {
	return s.token("", tokenKey{identity: identity{subject: owner, manager: true}},
		func(k tokenKey, c jwt.MapClaims) { c["sub"] = k.subject })
}

// token returns the cached token, or signs one; requests that miss at the
// same time share one signature.
func (s *Signer) token(keyID string, k tokenKey, claim func(tokenKey, jwt.MapClaims)) (string, error) {
	key, err := s.key(keyID)
	if err != nil {
		return "", err
	}
	k.key = key.id
	if text, ok := s.cached(k); ok {
		return text, nil
	}
	signed, err, _ := s.signing.Do(fmt.Sprintf("%q %t", []string{k.session, k.key, k.subject, k.email}, k.manager), func() (any, error) {
		if text, ok := s.cached(k); ok {
			return text, nil // made since the look above
		}
		return s.sign(key, k, claim)
	})
	text, _ := signed.(string) // which it always is
	return text, err
}

// sign makes a token and puts it into the cache.
func (s *Signer) sign(key signingKey, k tokenKey, claim func(tokenKey, jwt.MapClaims)) (string, error) {
	now := s.clk.Now()
	expires := now.Add(tokenLife).Unix()
	claims := jwt.MapClaims{"iss": issuerRouter, "aud": audienceWorkloadManager, "iat": now.Unix(), "exp": expires}
	if k.session != "" {
		claims["aud"] = k.session
	}
	claim(k, claims)
	text, err := jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(key.key)
	if err != nil {
		return "", fmt.Errorf("signing token: %w", err)
	}
	if k.session != "" {
		text = bearerPrefix + text // as it is sent, so that no request puts it together
	}
	s.keep(k, text, expires)
	return text, nil
}

// keep remembers a token, in the place of an earlier one.
func (s *Signer) keep(k tokenKey, text string, expires int64) {
	index, ok := s.index(k)
	if !ok {
		return
	}
	s.tokensMu.Lock()
	defer s.tokensMu.Unlock()
	s.tokens.Put(index, signedToken{text: text, expires: expires, identity: s.shared(k.identity)})
}

func (s *Signer) cached(k tokenKey) (string, bool) {
	index, ok := s.index(k)
	if !ok {
		return "", false
	}
	s.tokensMu.RLock()
	token, ok := s.tokens.Get(index)
	s.tokensMu.RUnlock()
	if !ok || *token.identity != k.identity || time.Unix(token.expires, 0).Sub(s.clk.Now()) < tokenRenewal {
		return "", false
	}
	return token.text, true
}

// maxIdentities bounds those that tokens share.
const maxIdentities = 10_000

// shared returns an identity that is equal, and the same one for many tokens.
// tokensMu is held.
func (s *Signer) shared(i identity) *identity {
	if known := s.identities[i]; known != nil {
		return known
	}
	if len(s.identities) >= maxIdentities {
		clear(s.identities)
	}
	s.identities[i] = &i
	return &i
}
