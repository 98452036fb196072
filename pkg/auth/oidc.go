package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"go.uber.org/zap"
	"k8s.io/utils/clock"
)

const (
	// issuerTimeout bounds one request to the issuer.
	issuerTimeout = 10 * time.Second
	// The issuer was not reached: the next attempt waits between these.
	issuerRetryMin = time.Second
	issuerRetryMax = 30 * time.Second
)

// OIDCOptions say whose tokens are accepted.
type OIDCOptions struct {
	// IssuerURL as it stands in the tokens' iss.
	IssuerURL string
	// Audience that a token must name.
	Audience string
	// RoleClaim is the claim that lists the roles, or the path to it, such as
	// realm_access.roles. Empty: roles are not read.
	RoleClaim string
	// RequiredRole that every caller must have. Empty: none.
	RequiredRole string
	// Client reaches the issuer. Nil: a plain one.
	Client *http.Client
}

// OIDC checks callers' bearer tokens against an OpenID Connect issuer.
type OIDC struct {
	clk  clock.WithTicker
	opts OIDCOptions
	log  *zap.Logger
	// verifier is nil until the issuer was reached.
	verifier atomic.Pointer[oidc.IDTokenVerifier]
}

// NewOIDC reaches for nothing yet; Run does.
func NewOIDC(clk clock.WithTicker, opts OIDCOptions, log *zap.Logger) *OIDC {
	if opts.Client == nil {
		opts.Client = &http.Client{Timeout: issuerTimeout}
	}
	return &OIDC{clk: clk, opts: opts, log: log}
}

// Run reads the issuer's description, waiting for an issuer that is out of
// reach, and then for ctx to end: fetches of new keys run on ctx.
func (o *OIDC) Run(ctx context.Context) error {
	for delay := issuerRetryMin; ctx.Err() == nil; delay = min(2*delay, issuerRetryMax) {
		verifier, err := o.discover(oidc.ClientContext(ctx, o.opts.Client))
		if err == nil {
			o.verifier.Store(verifier)
			o.log.Info("token issuer reached", zap.String("issuer", o.opts.IssuerURL))
			<-ctx.Done()
			return nil
		}
		if ctx.Err() == nil {
			o.log.Warn("token issuer not reached, trying again",
				zap.String("issuer", o.opts.IssuerURL), zap.Duration("in", delay), zap.Error(err))
		}
		timer := o.clk.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
	return nil
}

// discover reads the issuer's description.
func (o *OIDC) discover(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	provider, err := oidc.NewProvider(ctx, o.opts.IssuerURL)
	if err != nil {
		return nil, fmt.Errorf("reading the issuer's description: %w", err)
	}
	var described struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := provider.Claims(&described); err != nil {
		return nil, fmt.Errorf("reading the issuer's description: %w", err)
	}
	return oidc.NewVerifier(o.opts.IssuerURL, keySet{oidc.NewRemoteKeySet(ctx, described.Keys)}, &oidc.Config{
		ClientID: o.opts.Audience,
		SupportedSigningAlgs: slices.DeleteFunc(described.Algorithms, func(alg string) bool {
			return !slices.Contains(asymmetric, alg)
		}),
		Now: o.clk.Now,
	}), nil
}

// asymmetric algorithms are the only ones an issuer can sign with without
// sharing its key with us.
var asymmetric = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// Authenticate checks the value of an Authorization header. Errors:
// ErrNotReady while the issuer or its keys cannot be read, ErrUnauthorized
// for a token that is missing or not to be trusted, ErrForbidden for one
// without the required role.
func (o *OIDC) Authenticate(ctx context.Context, authorization string) (Principal, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Principal{}, fmt.Errorf("%w: no bearer token", ErrUnauthorized)
	}
	verifier := o.verifier.Load()
	if verifier == nil {
		return Principal{}, ErrNotReady
	}
	var unread bool
	verified, err := verifier.Verify(context.WithValue(ctx, keysUnread{}, &unread), token)
	switch {
	case err != nil && unread:
		return Principal{}, fmt.Errorf("%w: %w", ErrNotReady, err)
	case err != nil:
		return Principal{}, fmt.Errorf("%w: %w", ErrUnauthorized, err)
	case verified.Subject == "":
		return Principal{}, fmt.Errorf("%w: the token names no subject", ErrUnauthorized)
	}
	principal, err := o.principal(verified)
	if err != nil {
		return Principal{}, err
	}
	if role := o.opts.RequiredRole; role != "" && !slices.Contains(principal.Roles, role) {
		return Principal{}, fmt.Errorf("%w: role %q is missing", ErrForbidden, role)
	}
	return principal, nil
}

func (o *OIDC) principal(verified *oidc.IDToken) (Principal, error) {
	var claims map[string]json.RawMessage
	if err := verified.Claims(&claims); err != nil {
		return Principal{}, fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	var email string
	// An email of another type is no reason to refuse a good token.
	_ = json.Unmarshal(claims["email"], &email)
	return Principal{Subject: verified.Subject, Email: email, Roles: roles(claims, o.opts.RoleClaim)}, nil
}

// roles finds the claim by its whole name first, since names with dots in
// them (URLs) are common, then by the path. A string is a list separated by
// spaces, as in scope.
func roles(claims map[string]json.RawMessage, path string) []string {
	if value, ok := claims[path]; ok {
		var list []string
		if json.Unmarshal(value, &list) == nil {
			return list
		}
		var text string
		if json.Unmarshal(value, &text) == nil {
			return strings.Fields(text)
		}
		return nil
	}
	head, rest, found := strings.Cut(path, ".")
	var inner map[string]json.RawMessage
	if !found || json.Unmarshal(claims[head], &inner) != nil {
		return nil
	}
	return roles(inner, rest)
}

// keysUnread is the context key of a *bool that says that the keys could not
// be fetched: the verifier itself does not tell this from a bad signature.
type keysUnread struct{}

// keySet marks failed fetches of the issuer's keys.
type keySet struct{ remote *oidc.RemoteKeySet }

// VerifySignature is called by the verifier.
func (k keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.remote.VerifySignature(ctx, token)
	// Only a failed fetch wraps its cause; see RemoteKeySet.verify.
	if err != nil && errors.Unwrap(err) != nil {
		if unread, ok := ctx.Value(keysUnread{}).(*bool); ok {
			*unread = true
		}
	}
	return payload, err
}
