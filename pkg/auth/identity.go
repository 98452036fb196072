package auth

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
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
	// session is empty in a token for the workload-manager.
	session, key, subject, email string
}

// signedToken is small: a router holds one for each session in use.
type signedToken struct {
	text    string
	expires int64 // unix seconds
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
		session: sessionID, subject: user.Subject, email: user.Email,
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
	return s.token("", tokenKey{subject: owner},
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
	signed, err, _ := s.signing.Do(fmt.Sprintf("%q", k), func() (any, error) {
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
	s.tokensMu.Lock()
	defer s.tokensMu.Unlock()
	s.tokens.Put(k, signedToken{text: text, expires: expires})
	return text, nil
}

func (s *Signer) cached(k tokenKey) (string, bool) {
	s.tokensMu.RLock()
	token, ok := s.tokens.Get(k)
	s.tokensMu.RUnlock()
	if !ok || time.Unix(token.expires, 0).Sub(s.clk.Now()) < tokenRenewal {
		return "", false
	}
	return token.text, true
}
