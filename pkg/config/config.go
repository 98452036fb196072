// Package config owns the settings of both programs: their flags, the
// environment variable behind each flag, their defaults and the rules they
// must keep. Nothing else reads the environment.
//
// It opens, dials and reads nothing: whether a file exists or a server answers
// is found by whoever uses the setting.
package config

import (
	"errors"
	"net/netip"
	"net/url"
	"time"
)

// ErrVersion is returned for --version. The caller prints its build.
var ErrVersion = errors.New("version asked for")

// HelpError is returned for --help. The caller prints Usage and succeeds.
type HelpError struct{ Usage string }

// Error says what was asked for.
func (*HelpError) Error() string { return "help asked for" }

// Kinds of store.
const (
	StoreRedis  = "redis"
	StoreValkey = "valkey"
)

// Common is what both programs have.
type Common struct {
	Port  int
	TLS   TLS
	Store Store
	Log   Log
	Trace Trace
	// AdminAddress is a loopback host:port where the log level is set. Empty:
	// nowhere.
	AdminAddress string
	// Namespace this installation runs in, as given; see SecretNamespace and
	// SPIFFENamespace.
	Namespace string
	// SPIFFETrustDomain turns the check of SPIFFE ids on with mTLS.
	SPIFFETrustDomain string
	// Kubeconfig is a path. Empty: the pod's service account.
	Kubeconfig string
	// ClusterTimeout bounds one call to the API server.
	ClusterTimeout time.Duration
	// DrainDelay is waited for at the end, after readiness began to fail.
	DrainDelay time.Duration
	// DrainTimeout bounds the wait for requests at the end.
	DrainTimeout time.Duration
	// Warnings about the settings, to be logged at start.
	Warnings []string
}

// Logging is how records are written.
func (c Common) Logging() Log { return c.Log }

// Admin is the address of AdminAddress.
func (c Common) Admin() string { return c.AdminAddress }

// Defaults of Namespace; existing installations differ by use.
const (
	defaultSecretNamespace = "default"
	defaultSPIFFENamespace = "agentcube"
)

// SecretNamespace is where the identity Secret is.
func (c Common) SecretNamespace() string {
	if c.Namespace == "" {
		return defaultSecretNamespace
	}
	return c.Namespace
}

// SPIFFENamespace is the namespace in the SPIFFE ids of both programs.
func (c Common) SPIFFENamespace() string {
	if c.Namespace == "" {
		return defaultSPIFFENamespace
	}
	return c.Namespace
}

// TLS names PEM files. With a CA the peer must have a certificate of it.
type TLS struct {
	Enabled       bool
	Cert, Key, CA string
}

// Store is where sessions are kept.
type Store struct {
	// Type is StoreRedis or StoreValkey.
	Type string
	// Addr is host:port.
	Addr     string
	Password string
	// PasswordRequired refuses a start without a password.
	PasswordRequired bool
	// Timeout bounds one call.
	Timeout time.Duration
}

// Log is how records are written; see telemetry.NewLogger.
type Log struct{ Format, Level string }

// WorkloadManager is the configuration of the workload-manager.
type WorkloadManager struct {
	Common
	// RuntimeClassName for templates that name none. Empty: none.
	RuntimeClassName string
	EnableAuth       bool
	// CreateTimeout bounds a create, the probe of its entry points included.
	CreateTimeout time.Duration
	ProbeTimeout  time.Duration
	// CollectInterval is the pause between two passes of the collector.
	CollectInterval time.Duration
	// UndoTimeout bounds the undo of a create, DeleteTimeout a deletion.
	UndoTimeout, DeleteTimeout time.Duration
	// UnknownTimeout is how long the API server may still apply a create call
	// whose answer was lost. It is longer than the API server's own bound on a
	// request (--request-timeout, 60 s).
	UnknownTimeout time.Duration
	// OutagePause is how long nobody is taken for idle after the store was out
	// of reach, so that routers can write the activity they hold.
	OutagePause time.Duration
	// ResyncInterval is the pause between two comparisons of the store with the
	// cluster.
	ResyncInterval time.Duration
	// ResyncGrace is how long an object must be without a session before it is
	// deleted.
	ResyncGrace time.Duration
	// AdoptUnmarked takes objects that bear no installation's id for ours.
	AdoptUnmarked bool
	// ClusterQPS and ClusterBurst limit our calls to the API server.
	ClusterQPS   float32
	ClusterBurst int
}

// Router is the configuration of the router.
type Router struct {
	Common
	WorkloadManagerURL *url.URL
	// MTLS is what the workload-manager is spoken to with.
	MTLS TLS
	OIDC OIDC
	// MaxConcurrentRequests at a time. Zero: unlimited.
	MaxConcurrentRequests int
	// ResponseTimeout bounds the wait for the head of an answer. Zero: none.
	ResponseTimeout time.Duration
	// DialTimeout bounds the dial of a sandbox.
	DialTimeout time.Duration
	// CreateTimeout bounds the wait for a new session.
	CreateTimeout time.Duration
	// MaxStaleness is how long sessions are served from memory while the store
	// does not answer.
	MaxStaleness time.Duration
	// AllowLoopbackEndpoints lets sandboxes be on this machine.
	AllowLoopbackEndpoints bool
	// SandboxCA verifies HTTPS entry points. Empty: they are not verified.
	SandboxCA string
	// TrustedProxies may set X-Forwarded headers.
	TrustedProxies []netip.Prefix
}

// OIDC says whose tokens callers must bring; see auth.OIDCOptions.
type OIDC struct{ IssuerURL, Audience, RoleClaim, RequiredRole string }

// Enabled reports whether callers must bring a token.
func (o OIDC) Enabled() bool { return o.IssuerURL != "" }
