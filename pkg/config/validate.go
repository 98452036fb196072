package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"
)

const maxPort = 65535

var (
	// namespaceName is a DNS label (RFC 1123, section 2.1).
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	// trustDomainName is what SPIFFE-ID, section 2.1, allows.
	trustDomainName = regexp.MustCompile(`^[a-z0-9._-]{1,255}$`)
)

// checks collects problems, each with the name of its option.
type checks struct{ problems []error }

func (v *checks) err() error { return errors.Join(v.problems...) }

func (v *checks) require(ok bool, option, problem string) {
	if !ok {
		v.problems = append(v.problems, fmt.Errorf("--%s: %s", option, problem))
	}
}

func (v *checks) positive(option string, d time.Duration) {
	v.require(d > 0, option, "must be more than 0")
}

func (v *checks) notNegative(option string, d time.Duration) {
	v.require(d >= 0, option, "must not be negative")
}

func (v *checks) oneOf(option, value string, allowed ...string) {
	v.require(slices.Contains(allowed, value), option, fmt.Sprintf("%q is not one of %v", value, allowed))
}

func (v *checks) common(c Common) {
	v.require(c.Port >= 0 && c.Port <= maxPort, "port", "must be between 0 and 65535")
	if c.TLS.Enabled {
		v.require(c.TLS.Cert != "", "tls-cert", "required with TLS")
		v.require(c.TLS.Key != "", "tls-key", "required with TLS")
	}
	v.store(c.Store)
	v.require(c.Namespace == "" || namespaceName.MatchString(c.Namespace), "namespace", "not a DNS label")
	v.require(c.SPIFFETrustDomain == "" || trustDomainName.MatchString(c.SPIFFETrustDomain),
		"spiffe-trust-domain", "only lower-case letters, digits, dots, hyphens and underscores are allowed")
	v.positive("cluster-timeout", c.ClusterTimeout)
	v.notNegative("drain-delay", c.DrainDelay)
	v.notNegative("drain-timeout", c.DrainTimeout)
	v.oneOf("log-format", c.Log.Format, "json", "console")
	v.oneOf("log-level", c.Log.Level, "debug", "info", "warn", "error")
	v.observe(c)
}

func (v *checks) store(s Store) {
	v.positive("store-timeout", s.Timeout)
	v.oneOf("store-type", s.Type, StoreRedis, StoreValkey)
	if s.Type != StoreRedis && s.Type != StoreValkey {
		return // the other options are named after it
	}
	if s.Addr == "" {
		v.require(false, s.Type+"-addr", "required")
	} else {
		v.require(hostPort(s.Addr), s.Type+"-addr", fmt.Sprintf("%q is not host:port", s.Addr))
	}
	v.require(s.Password != "" || !s.PasswordRequired, s.Type+"-password",
		"required; for a store without one give --"+s.Type+"-password-required=false")
}

func hostPort(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return false
	}
	number, err := strconv.Atoi(port)
	return err == nil && number >= 1 && number <= maxPort
}

func (v *checks) manager(u *url.URL) {
	const option = "workload-manager-url"
	if u == nil {
		v.require(false, option, "required")
		return
	}
	v.require(webURL(u), option, "must be http or https, with a host and without user, query or fragment")
}

func (v *checks) oidc(o OIDC) {
	if !o.Enabled() {
		v.require(o.Audience == "", "jwt-audience", "means nothing without --jwt-issuer-url")
		v.require(o.RequiredRole == "", "jwt-required-role", "means nothing without --jwt-issuer-url")
		return
	}
	u, err := url.Parse(o.IssuerURL)
	v.require(err == nil && webURL(u), "jwt-issuer-url", "must be http or https, with a host and without user, query or fragment")
	v.require(o.Audience != "", "jwt-audience", "required with --jwt-issuer-url: tokens made for others would be accepted")
	v.require(o.RequiredRole == "" || o.RoleClaim != "", "jwt-role-claim", "required with --jwt-required-role")
}

func webURL(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		u.User == nil && u.RawQuery == "" && u.Fragment == ""
}
