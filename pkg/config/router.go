package config

import (
	"errors"
	"net/netip"
	"net/url"
	"time"
)

// ParseRouter reads the settings of the router from its arguments (without
// the program's name) and the environment. The error holds every problem at
// once, those of Validate included, or is *HelpError or ErrVersion.
func ParseRouter(args []string, getenv func(string) string) (Router, error) {
	var c Router
	p := newParser("router", "router takes requests to the sandbox of their session.")
	raw := addCommon(p, &c.Common)
	var manager string
	var proxies []string
	f := p.flags
	f.StringVar(&manager, "workload-manager-url", "", "`URL` of the workload-manager")
	p.envNamed("workload-manager-url", "WORKLOAD_MANAGER_URL")
	f.StringSliceVar(&proxies, "trusted-proxies", nil, "`networks` (CIDR, or single addresses) whose X-Forwarded headers are believed")
	addRouterTLS(p, &c)
	addRouterLimits(p, &c)
	p.env("trusted-proxies")

	if err := p.parse(args, getenv); err != nil {
		return Router{}, err
	}
	raw.resolve()
	c.MTLS.Enabled = c.MTLS.files()
	raw.warnSPIFFE(c.MTLS.Enabled)
	c.setManager(manager)
	for _, proxy := range proxies {
		c.addProxy(p, proxy)
	}
	return c, errors.Join(append(p.problems, c.Validate())...)
}

func addRouterTLS(p *parser, c *Router) {
	f := p.flags
	f.StringVar(&c.MTLS.Cert, "mtls-cert", "", "certificate for the workload-manager, a PEM `file`")
	f.StringVar(&c.MTLS.Key, "mtls-key", "", "key of that certificate, a PEM `file`")
	f.StringVar(&c.MTLS.CA, "mtls-ca", "", "authority of the workload-manager's certificate, a PEM `file`")
	f.StringVar(&c.SandboxCA, "sandbox-ca", "", "verify HTTPS entry points with this authority, a PEM `file`; when empty, they are not verified")
	f.StringVar(&c.OIDC.IssuerURL, "jwt-issuer-url", "", "require a bearer token of this OpenID Connect issuer, a `URL`")
	f.StringVar(&c.OIDC.Audience, "jwt-audience", "", "audience that a bearer token must name")
	f.StringVar(&c.OIDC.RoleClaim, "jwt-role-claim", "realm_access.roles", "claim that lists the roles, or the path to it")
	f.StringVar(&c.OIDC.RequiredRole, "jwt-required-role", "", "role that every caller must have")
	p.env("mtls-cert", "mtls-key", "mtls-ca", "sandbox-ca",
		"jwt-issuer-url", "jwt-audience", "jwt-role-claim", "jwt-required-role")
}

func addRouterLimits(p *parser, c *Router) {
	f := p.flags
	f.IntVar(&c.MaxConcurrentRequests, "max-concurrent-requests", 1000, "requests in flight at a time; 0 is unlimited")
	f.DurationVar(&c.ResponseTimeout, "response-timeout", 0, "bound on the wait for a sandbox to answer; 0 is none")
	f.DurationVar(&c.DialTimeout, "dial-timeout", 5*time.Second, "bound on the dial of a sandbox")
	f.DurationVar(&c.CreateTimeout, "create-timeout", 130*time.Second, "bound on the wait for a new session")
	f.DurationVar(&c.MaxStaleness, "max-staleness", 30*time.Second, "how long known sessions are served while the store does not answer")
	f.BoolVar(&c.AllowLoopbackEndpoints, "allow-loopback-endpoints", false, "forward to sandboxes on this machine; for development")
	p.env("max-concurrent-requests", "response-timeout", "dial-timeout", "create-timeout", "max-staleness",
		"allow-loopback-endpoints")
}

// setManager takes the URL of the workload-manager. Existing installations
// turn mTLS on by its flags alone and leave http in the URL.
func (c *Router) setManager(text string) {
	if text == "" {
		return // Validate says so
	}
	u, err := url.Parse(text)
	if err != nil {
		// Validate refuses it. The cause repeats the text, which may hold a
		// password, so it is not told.
		u = &url.URL{}
	}
	if u.Scheme == "http" && c.MTLS.Enabled {
		u.Scheme = "https"
		c.Warnings = append(c.Warnings, "--workload-manager-url: https is used in place of http, since mTLS is on")
	}
	c.WorkloadManagerURL = u
}

func (c *Router) addProxy(p *parser, text string) {
	if addr, err := netip.ParseAddr(text); err == nil {
		c.TrustedProxies = append(c.TrustedProxies, netip.PrefixFrom(addr, addr.BitLen()))
		return
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		p.problem("--trusted-proxies: %q is neither a network nor an address", text)
		return
	}
	c.TrustedProxies = append(c.TrustedProxies, prefix.Masked())
}

// Validate returns every problem at once, each with the option's name.
func (c Router) Validate() error {
	v := &checks{}
	v.common(c.Common)
	v.manager(c.WorkloadManagerURL)
	if c.MTLS.Enabled {
		v.require(c.MTLS.Cert != "", "mtls-cert", "required with the other mTLS files")
		v.require(c.MTLS.Key != "", "mtls-key", "required with the other mTLS files")
		v.require(c.MTLS.CA != "", "mtls-ca", "required with the other mTLS files")
	}
	v.oidc(c.OIDC)
	v.require(c.MaxConcurrentRequests >= 0, "max-concurrent-requests", "must not be negative")
	v.notNegative("response-timeout", c.ResponseTimeout)
	v.positive("dial-timeout", c.DialTimeout)
	v.positive("create-timeout", c.CreateTimeout)
	v.notNegative("max-staleness", c.MaxStaleness)
	return v.err()
}
