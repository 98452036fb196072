package config_test

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/config"
)

// env is the environment of a test.
type env map[string]string

func (e env) get(name string) string { return e[name] }

// deployed is the environment that existing Deployments set.
var deployed = env{
	"AGENTCUBE_NAMESPACE": "agentcube", "REDIS_ADDR": "redis:6379", "REDIS_PASSWORD": "secret",
	"WORKLOAD_MANAGER_URL": "http://workload-manager:8080", "AGENTCUBE_SPIFFE_TRUST_DOMAIN": "cluster.local",
}

func (e env) with(name, value string) env {
	more := env{name: value}
	for k, v := range e {
		if k != name {
			more[k] = v
		}
	}
	return more
}

func TestDefaultsOfTheWorkloadManager(t *testing.T) {
	t.Parallel()
	c, err := config.ParseWorkloadManager(nil, env{"REDIS_ADDR": "redis:6379", "REDIS_PASSWORD": "secret"}.get)
	require.NoError(t, err)
	assert.Equal(t, config.WorkloadManager{
		Common: config.Common{
			Port:           8080,
			Store:          config.Store{Type: "redis", Addr: "redis:6379", Password: "secret", PasswordRequired: true, Timeout: 3 * time.Second},
			Log:            config.Log{Format: "json", Level: "info"},
			ClusterTimeout: 10 * time.Second, DrainDelay: 5 * time.Second, DrainTimeout: 30 * time.Second,
		},
		CreateTimeout: 110 * time.Second, ProbeTimeout: 15 * time.Second, CollectInterval: 15 * time.Second,
		UndoTimeout: 30 * time.Second, DeleteTimeout: 30 * time.Second, UnknownTimeout: 90 * time.Second,
		OutagePause: 30 * time.Second, ResyncInterval: 5 * time.Minute, ResyncGrace: 30 * time.Second,
		ClusterQPS: 300, ClusterBurst: 600,
	}, c)
	assert.Equal(t, "default", c.SecretNamespace())
	assert.Equal(t, "agentcube", c.SPIFFENamespace())
}

func TestDefaultsOfTheRouter(t *testing.T) {
	t.Parallel()
	c, err := config.ParseRouter(nil, deployed.with("AGENTCUBE_SPIFFE_TRUST_DOMAIN", "").get)
	require.NoError(t, err)
	assert.Equal(t, "http://workload-manager:8080", c.WorkloadManagerURL.String())
	assert.Equal(t, 1000, c.MaxConcurrentRequests)
	assert.Zero(t, c.ResponseTimeout)
	assert.Equal(t, 5*time.Second, c.DialTimeout)
	assert.Equal(t, 130*time.Second, c.CreateTimeout)
	assert.Equal(t, 30*time.Second, c.MaxStaleness)
	assert.False(t, c.AllowLoopbackEndpoints)
	assert.False(t, c.OIDC.Enabled())
	assert.False(t, c.MTLS.Enabled)
	assert.Empty(t, c.TrustedProxies)
	assert.Empty(t, c.Warnings)
	assert.Equal(t, "agentcube", c.SecretNamespace())
}

func TestDeployedWorkloadManagers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args  []string
		check func(*testing.T, config.WorkloadManager)
	}{
		"plain, with an empty runtime class": {
			args: []string{"--port=8080", "--runtime-class-name="},
			check: func(t *testing.T, c config.WorkloadManager) {
				t.Helper()
				assert.Empty(t, c.RuntimeClassName)
				assert.False(t, c.TLS.Enabled)
				assert.Equal(t, []string{"--spiffe-trust-domain: without effect, since mTLS is off"}, c.Warnings)
			},
		},
		"files without --enable-tls turn mTLS on": {
			args: []string{"--port=8080", "--runtime-class-name=", "--tls-cert=/c", "--tls-key=/k", "--tls-ca=/a"},
			check: func(t *testing.T, c config.WorkloadManager) {
				t.Helper()
				assert.Equal(t, config.TLS{Enabled: true, Cert: "/c", Key: "/k", CA: "/a"}, c.TLS)
				assert.Empty(t, c.Warnings)
			},
		},
		"klog's verbosity with one hyphen is debug, and its other flags are named in one warning": {
			args: []string{"-v=2", "--logtostderr", "-stderrthreshold=INFO", "--log_dir", "/tmp", "--vmodule=a=1", "-alsologtostderr"},
			check: func(t *testing.T, c config.WorkloadManager) {
				t.Helper()
				assert.Equal(t, "debug", c.Log.Level)
				require.Len(t, c.Warnings, 2)
				assert.Equal(t, "--alsologtostderr, --log_dir, --logtostderr, --stderrthreshold, --vmodule: "+
					"ignored; this program logs to standard error, see --log-level and --log-format", c.Warnings[0])
			},
		},
		"verbosity zero changes nothing": {
			args: []string{"-v", "0"},
			check: func(t *testing.T, c config.WorkloadManager) {
				t.Helper()
				assert.Equal(t, "info", c.Log.Level)
			},
		},
		"verbosity without a sign between": {
			args: []string{"-v4"},
			check: func(t *testing.T, c config.WorkloadManager) {
				t.Helper()
				assert.Equal(t, "debug", c.Log.Level)
			},
		},
		"verbosity with two hyphens": {
			args: []string{"--v=1"},
			check: func(t *testing.T, c config.WorkloadManager) {
				t.Helper()
				assert.Equal(t, "debug", c.Log.Level)
			},
		},
		"every flag with one hyphen": {
			args: []string{"-port=9", "-runtime-class-name", "-odd"},
			check: func(t *testing.T, c config.WorkloadManager) {
				t.Helper()
				assert.Equal(t, 9, c.Port)
				assert.Equal(t, "-odd", c.RuntimeClassName, "a value is not taken for a flag")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.ParseWorkloadManager(test.args, deployed.get)
			require.NoError(t, err)
			test.check(t, c)
		})
	}
}

func TestDeployedRouters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args  []string
		check func(*testing.T, config.Router)
	}{
		"plain, with debug": {
			args: []string{"--port=8080", "--debug"},
			check: func(t *testing.T, c config.Router) {
				t.Helper()
				assert.Equal(t, "debug", c.Log.Level)
			},
		},
		"an explicit level wins over debug": {
			args: []string{"--debug", "--log-level=warn"},
			check: func(t *testing.T, c config.Router) {
				t.Helper()
				assert.Equal(t, "warn", c.Log.Level)
			},
		},
		"mTLS turns the workload-manager's URL to https": {
			args: []string{"--port=8080", "--debug", "--mtls-cert=/c", "--mtls-key=/k", "--mtls-ca=/a"},
			check: func(t *testing.T, c config.Router) {
				t.Helper()
				assert.Equal(t, config.TLS{Enabled: true, Cert: "/c", Key: "/k", CA: "/a"}, c.MTLS)
				assert.Equal(t, "https://workload-manager:8080", c.WorkloadManagerURL.String())
				assert.Len(t, c.Warnings, 1)
			},
		},
		"OIDC": {
			args: []string{
				"--port=8080", "--debug", "--jwt-issuer-url=https://issuer/realms/a", "--jwt-audience=agentcube",
				"--jwt-role-claim=realm_access.roles", "--jwt-required-role=user",
			},
			check: func(t *testing.T, c config.Router) {
				t.Helper()
				assert.Equal(t, config.OIDC{
					IssuerURL: "https://issuer/realms/a", Audience: "agentcube",
					RoleClaim: "realm_access.roles", RequiredRole: "user",
				}, c.OIDC)
				assert.True(t, c.OIDC.Enabled())
			},
		},
		"TLS of its own": {
			args: []string{"--enable-tls", "--tls-cert=/c", "--tls-key=/k"},
			check: func(t *testing.T, c config.Router) {
				t.Helper()
				assert.Equal(t, config.TLS{Enabled: true, Cert: "/c", Key: "/k"}, c.TLS)
			},
		},
		"trusted proxies are networks and addresses": {
			args: []string{"--trusted-proxies=10.0.0.0/8,192.168.1.7", "--trusted-proxies", "fd00::/8"},
			check: func(t *testing.T, c config.Router) {
				t.Helper()
				assert.Equal(t, []netip.Prefix{
					netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.1.7/32"), netip.MustParsePrefix("fd00::/8"),
				}, c.TrustedProxies)
			},
		},
		"unlimited requests": {
			args: []string{"--max-concurrent-requests=0"},
			check: func(t *testing.T, c config.Router) {
				t.Helper()
				assert.Zero(t, c.MaxConcurrentRequests)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.ParseRouter(test.args, deployed.get)
			require.NoError(t, err)
			test.check(t, c)
		})
	}
}

func TestStores(t *testing.T) {
	t.Parallel()
	both := env{
		"REDIS_ADDR": "redis:1", "REDIS_PASSWORD": "r", "VALKEY_ADDR": "valkey:2", "VALKEY_PASSWORD": "v",
	}
	for name, test := range map[string]struct {
		env  env
		args []string
		want config.Store
	}{
		"Redis is the default":                 {env: both, want: config.Store{Type: "redis", Addr: "redis:1", Password: "r", PasswordRequired: true}},
		"Valkey has variables of its own":      {env: both.with("STORE_TYPE", "valkey"), want: config.Store{Type: "valkey", Addr: "valkey:2", Password: "v", PasswordRequired: true}},
		"the type is read in any case":         {env: both.with("STORE_TYPE", "Valkey"), want: config.Store{Type: "valkey", Addr: "valkey:2", Password: "v", PasswordRequired: true}},
		"a flag wins over the environment":     {env: both, args: []string{"--redis-addr=[::1]:9"}, want: config.Store{Type: "redis", Addr: "[::1]:9", Password: "r", PasswordRequired: true}},
		"no password, when that is said to be": {env: env{"REDIS_ADDR": "redis:1", "REDIS_PASSWORD_REQUIRED": "false"}, want: config.Store{Type: "redis", Addr: "redis:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.ParseWorkloadManager(test.args, test.env.get)
			require.NoError(t, err)
			test.want.Timeout = 3 * time.Second
			assert.Equal(t, test.want, c.Store)
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		router bool
		args   []string
		env    env
		want   []string
	}{
		"no store": {env: env{}, want: []string{
			"--redis-addr: required",
			"--redis-password: required; for a store without one give --redis-password-required=false",
		}},
		"every kind of mistake at once": {
			args: []string{
				"--nonsense=secret", "--port=eighty", "stray", "-x", "value", "--create-timeout=5s", "--log-format=xml",
				"--log-level=loud", "--drain-delay=-1s", "--namespace=No/Name", "--spiffe-trust-domain=A b", "--tls-ca=/a",
				"--cluster-qps=0", "--cluster-burst=0", "--undo-timeout=0s", "--unknown-timeout=0s", "--store-timeout=0s", "--enable-auth",
			},
			env: env{"REDIS_ADDR": "redis", "AGENTCUBE_DELETE_TIMEOUT": "soon", "REDIS_PASSWORD_REQUIRED": "maybe", "REDIS_PASSWORD": "p"},
			want: []string{
				"unknown flag --nonsense",
				"unknown flag -x",
				`--port: "eighty" is not a valid int`,
				`unexpected argument "stray"`,
				`$REDIS_PASSWORD_REQUIRED: "maybe" is not a valid bool`,
				`$AGENTCUBE_DELETE_TIMEOUT: "soon" is not a valid duration`,
				"--tls-cert: required with TLS",
				"--tls-key: required with TLS",
				"--store-timeout: must be more than 0",
				`--redis-addr: "redis" is not host:port`,
				"--namespace: not a DNS label",
				"--spiffe-trust-domain: only lower-case letters, digits, dots, hyphens and underscores are allowed",
				"--drain-delay: must not be negative",
				`--log-format: "xml" is not one of [json console]`,
				`--log-level: "loud" is not one of [debug info warn error]`,
				"--probe-timeout: longer than --create-timeout, which includes it",
				"--undo-timeout: must be more than 0",
				"--unknown-timeout: must be more than 0",
				"--cluster-qps: must be more than 0",
				"--cluster-burst: must be more than 0",
				"--enable-auth: this build does not provide it yet",
			},
		},
		"an unknown store": {env: env{"STORE_TYPE": "etcd"}, want: []string{`--store-type: "etcd" is not one of [redis valkey]`}},
		"a port beyond the last one": {
			args: []string{"--port=65536", "--redis-addr=redis:0"}, env: deployed,
			want: []string{"--port: must be between 0 and 65535", `--redis-addr: "redis:0" is not host:port`},
		},
		"a flag at the end without its value": {
			args: []string{"--kubeconfig"}, env: deployed, want: []string{"flag needs an argument: --kubeconfig"},
		},
		"a router's mistakes": {
			router: true,
			args: []string{
				"--trusted-proxies=10.0.0.0/33", "--mtls-cert=/c", "--jwt-audience=a", "--jwt-required-role=r",
				"--max-concurrent-requests=-1", "--response-timeout=-1s", "--dial-timeout=0s", "--create-timeout=0s", "--max-staleness=-1s",
			},
			env: deployed.with("WORKLOAD_MANAGER_URL", ""),
			want: []string{
				`--trusted-proxies: "10.0.0.0/33" is neither a network nor an address`,
				"--workload-manager-url: required",
				"--mtls-key: required with the other mTLS files",
				"--mtls-ca: required with the other mTLS files",
				"--jwt-audience: means nothing without --jwt-issuer-url",
				"--jwt-required-role: means nothing without --jwt-issuer-url",
				"--max-concurrent-requests: must not be negative",
				"--response-timeout: must not be negative",
				"--dial-timeout: must be more than 0",
				"--create-timeout: must be more than 0",
				"--max-staleness: must not be negative",
			},
		},
		"an issuer that accepts tokens made for anyone": {
			router: true, args: []string{"--jwt-issuer-url=issuer", "--jwt-role-claim=", "--jwt-required-role=r"}, env: deployed,
			want: []string{
				"--jwt-issuer-url: must be http or https, with a host and without user, query or fragment",
				"--jwt-audience: required with --jwt-issuer-url: tokens made for others would be accepted",
				"--jwt-role-claim: required with --jwt-required-role",
			},
		},
		"a URL that is none": {
			router: true, env: deployed.with("WORKLOAD_MANAGER_URL", "http://user:secret@%zz"),
			want: []string{"--workload-manager-url: must be http or https, with a host and without user, query or fragment"},
		},
		"a URL without a scheme": {
			router: true, env: deployed.with("WORKLOAD_MANAGER_URL", "workload-manager:8080"),
			want: []string{"--workload-manager-url: must be http or https, with a host and without user, query or fragment"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			if test.router {
				_, err = config.ParseRouter(test.args, test.env.get)
			} else {
				_, err = config.ParseWorkloadManager(test.args, test.env.get)
			}
			require.Error(t, err)
			assert.Equal(t, test.want, strings.Split(err.Error(), "\n"))
		})
	}
}

func TestHelpAndVersionNeedNoConfiguration(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"-h"}, {"--nonsense", "--help"}} {
		_, err := config.ParseRouter(args, env{}.get)
		var help *config.HelpError
		require.ErrorAs(t, err, &help, args)
		assert.Contains(t, help.Usage, "Usage: router [flags]")
		assert.Contains(t, help.Usage, "[$WORKLOAD_MANAGER_URL]")
		assert.NotContains(t, help.Usage, "vmodule", "klog's flags are not advertised")
		require.EqualError(t, err, "help asked for")
	}
	_, err := config.ParseWorkloadManager([]string{"--version"}, env{}.get)
	require.ErrorIs(t, err, config.ErrVersion)
	_, err = config.ParseRouter([]string{"--version"}, env{}.get)
	require.ErrorIs(t, err, config.ErrVersion)
}

// Every flag but these, which are for people at a terminal, is a setting.
func TestEveryFlagHasAVariableOfItsOwn(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([-\w]+)`)
	for name, usage := range map[string]string{
		"workload-manager": usageOf(t, func() error {
			_, err := config.ParseWorkloadManager([]string{"--help"}, env{}.get)
			return err
		}),
		"router": usageOf(t, func() error {
			_, err := config.ParseRouter([]string{"--help"}, env{}.get)
			return err
		}),
	} {
		flags := line.FindAllStringSubmatchIndex(usage, -1)
		require.NotEmpty(t, flags, name)
		seen := map[string]bool{}
		for i, at := range flags {
			flag, end := usage[at[2]:at[3]], len(usage)
			if i+1 < len(flags) {
				end = flags[i+1][0]
			}
			variable := regexp.MustCompile(`\[\$(\w+)\]`).FindStringSubmatch(usage[at[0]:end])
			if flag == "help" || flag == "version" || flag == "v" {
				assert.Empty(t, variable, flag)
				continue
			}
			require.Len(t, variable, 2, "%s --%s", name, flag)
			assert.False(t, seen[variable[1]], "%s is behind two flags", variable[1])
			seen[variable[1]] = true
		}
	}
}

func usageOf(t *testing.T, parse func() error) string {
	t.Helper()
	var help *config.HelpError
	require.ErrorAs(t, parse(), &help)
	return help.Usage
}

func FuzzParse(f *testing.F) {
	f.Add("--port=8080 -v=2", "redis:6379")
	f.Add("-- x", "")
	f.Add("- -= --= ---v -vv=1", ":")
	f.Fuzz(func(t *testing.T, line, addr string) {
		args := strings.Fields(line)
		get := env{"REDIS_ADDR": addr, "REDIS_PASSWORD": "p"}.get
		c, err := config.ParseWorkloadManager(args, get)
		if err == nil {
			require.NoError(t, c.Validate(), "what is accepted is valid")
		}
		_, err = config.ParseRouter(args, get)
		require.Error(t, err, "the workload-manager's URL is never given")
	})
}
