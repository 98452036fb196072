package config

import (
	"strings"
	"time"
)

// common holds what the flags of both programs fill in before it is decided
// what they mean together.
type common struct {
	*Common
	p         *parser
	debug     bool
	tracing   *tracing
	verbosity *int
	// stores by type: which one counts is known once --store-type is.
	stores map[string]*Store
}

func addCommon(p *parser, c *Common) *common {
	raw := &common{Common: c, p: p, stores: map[string]*Store{}}
	f := p.flags
	f.IntVar(&c.Port, "port", 8080, "port to listen on; 0 takes a free one")
	// Not AGENTCUBE_PORT: Kubernetes sets that one for a Service "agentcube".
	p.envNamed("port", envPrefix+"LISTEN_PORT")
	f.BoolVar(&c.TLS.Enabled, "enable-tls", false, "serve TLS; implied by --tls-cert, --tls-key and --tls-ca")
	f.StringVar(&c.TLS.Cert, "tls-cert", "", "certificate of this server, a PEM `file`")
	f.StringVar(&c.TLS.Key, "tls-key", "", "key of the certificate, a PEM `file`")
	p.env("enable-tls", "tls-cert", "tls-key")
	raw.addStore()

	f.StringVar(&c.Namespace, "namespace", "",
		"namespace of this installation; when empty, "+defaultSecretNamespace+" for the identity Secret and "+
			defaultSPIFFENamespace+" in SPIFFE ids")
	f.StringVar(&c.SPIFFETrustDomain, "spiffe-trust-domain", "", "with mTLS, require the peer's SPIFFE id in this trust domain")
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig `file`; when empty, the pod's service account")
	p.envNamed("kubeconfig", "KUBECONFIG")
	f.DurationVar(&c.ClusterTimeout, "cluster-timeout", 10*time.Second, "bound on one call to the API server")
	f.DurationVar(&c.DrainDelay, "drain-delay", 5*time.Second, "at the end, time for endpoints to notice that readiness fails")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", 30*time.Second, "at the end, bound on the wait for requests")
	p.env("namespace", "spiffe-trust-domain", "cluster-timeout", "drain-delay", "drain-timeout")

	f.StringVar(&c.Log.Format, "log-format", "json", "json or console")
	f.StringVar(&c.Log.Level, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&raw.debug, "debug", false, "short for --log-level=debug")
	p.env("log-format", "log-level", "debug")
	raw.tracing = addObserve(p, c)
	raw.verbosity = addKlogFlags(p)
	return raw
}

func (c *common) addStore() {
	f := c.p.flags
	f.StringVar(&c.Store.Type, "store-type", StoreRedis, StoreRedis+" or "+StoreValkey)
	c.p.envNamed("store-type", "STORE_TYPE")
	for _, kind := range []string{StoreRedis, StoreValkey} {
		s := &Store{}
		c.stores[kind] = s
		f.StringVar(&s.Addr, kind+"-addr", "", "`host:port` of the store")
		f.StringVar(&s.Password, kind+"-password", "", "password of the store; others on the machine can read a command line, so prefer the variable")
		f.BoolVar(&s.PasswordRequired, kind+"-password-required", true, "refuse to start without a password")
		for _, name := range []string{"addr", "password", "password-required"} {
			variable := strings.ToUpper(kind + "_" + strings.ReplaceAll(name, "-", "_"))
			c.p.envNamed(kind+"-"+name, variable)
		}
	}
	f.DurationVar(&c.Store.Timeout, "store-timeout", 3*time.Second, "bound on one call to the store")
	c.p.env("store-timeout")
}

// resolve decides what the settings mean together.
func (c *common) resolve() {
	c.Store.Type = strings.ToLower(c.Store.Type)
	if s, ok := c.stores[c.Store.Type]; ok {
		c.Store.Addr, c.Store.Password, c.Store.PasswordRequired = s.Addr, s.Password, s.PasswordRequired
	}
	c.Log.Format, c.Log.Level = strings.ToLower(c.Log.Format), strings.ToLower(c.Log.Level)
	if (c.debug || *c.verbosity >= 1) && !c.p.given("log-level") {
		c.Log.Level = "debug"
	}
	c.tracing.resolve(c.p, c.Common)
	c.TLS.Enabled = c.TLS.Enabled || c.TLS.files()
	if warning := klogWarning(c.p); warning != "" {
		c.Warnings = append(c.Warnings, warning)
	}
}

// warnSPIFFE: existing installations set the trust domain everywhere, so one
// that checks nothing is no reason to refuse the start.
func (c *common) warnSPIFFE(mTLS bool) {
	if c.SPIFFETrustDomain != "" && !mTLS {
		c.Warnings = append(c.Warnings, "--spiffe-trust-domain: without effect, since mTLS is off")
	}
}

// files reports whether any file is given.
func (t TLS) files() bool { return t.Cert != "" || t.Key != "" || t.CA != "" }
