package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/config"
)

func TestTraces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args    []string
		env     env
		url     string
		warning string
	}{
		"are off by default":                     {},
		"go where a flag says":                   {args: []string{"--otlp-endpoint=http://collector:4318"}, url: "http://collector:4318/v1/traces"},
		"go where the usual variable says":       {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}, url: "http://collector:4318/v1/traces"},
		"go where the variable for traces says":  {env: env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/own", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://d"}, url: "https://c/own"},
		"are off where the library is":           {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}},
		"are off without an exporter":            {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}},
		"are off with an exporter we have not":   {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "zipkin"}, warning: "--traces-exporter"},
		"are off with a protocol we do not know": {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, warning: "--otlp-protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := deployed
			for k, v := range c.env {
				all = all.with(k, v)
			}
			parsed, err := config.ParseRouter(c.args, all.with("AGENTCUBE_SPIFFE_TRUST_DOMAIN", "").get)
			require.NoError(t, err)
			assert.Equal(t, c.url, parsed.Trace.URL)
			assert.Nil(t, parsed.Trace.Ratio)
			if c.warning == "" {
				assert.Empty(t, parsed.Warnings)
				return
			}
			require.Len(t, parsed.Warnings, 1)
			assert.Contains(t, parsed.Warnings[0], c.warning)
		})
	}
}

func TestBadSettingsOfWhatIsObserved(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"otlp-endpoint": {"--otlp-endpoint=collector:4318"},
		"trace-ratio":   {"--trace-ratio=1.5"},
		"admin-address": {"--admin-address=0.0.0.0:9090"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.ParseWorkloadManager(args, deployed.get)
			require.ErrorContains(t, err, "--"+name)
		})
	}
	for _, address := range []string{":9090", "localhost", "10.0.0.7:9090", "agentcube:9090", "[::]:9090"} {
		_, err := config.ParseRouter([]string{"--admin-address=" + address}, deployed.get)
		require.ErrorContains(t, err, "--admin-address", address)
	}
	for _, address := range []string{"127.0.0.1:9090", "[::1]:9090"} {
		c, err := config.ParseRouter([]string{"--admin-address=" + address, "--trace-ratio=0"}, deployed.get)
		require.NoError(t, err, address)
		assert.Equal(t, address, c.Admin())
		if assert.NotNil(t, c.Trace.Ratio) {
			assert.Zero(t, *c.Trace.Ratio)
		}
	}
}
