package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Trace says where spans go; see telemetry.TraceOptions.
type Trace struct {
	// URL that spans are posted to. Empty: no traces.
	URL string
	// Ratio of the traces that begin here which are recorded. Nil: not given.
	Ratio *float64
}

// tracing holds what its flags fill in. The variables are those of
// OpenTelemetry.
type tracing struct {
	endpoint, tracesEndpoint, exporter, protocol string
	disabled                                     bool
	ratio                                        float64
}

func addObserve(p *parser, c *Common) *tracing {
	t := &tracing{}
	f := p.flags
	f.StringVar(&c.AdminAddress, "admin-address", "",
		"`host:port` on a loopback address where the log level is read and set; when empty, nowhere")
	p.env("admin-address")
	f.StringVar(&t.endpoint, "otlp-endpoint", "", "send traces to this collector, a `URL` (OTLP over HTTP); when empty, nothing is traced")
	p.envNamed("otlp-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT")
	f.StringVar(&t.tracesEndpoint, "otlp-traces-endpoint", "", "the same with its path, a `URL`")
	p.envNamed("otlp-traces-endpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	f.StringVar(&t.exporter, "traces-exporter", "otlp", "otlp or none")
	p.envNamed("traces-exporter", "OTEL_TRACES_EXPORTER")
	f.StringVar(&t.protocol, "otlp-protocol", "http/protobuf", "http/protobuf is all there is; with another nothing is traced")
	p.envNamed("otlp-protocol", "OTEL_EXPORTER_OTLP_PROTOCOL")
	f.BoolVar(&t.disabled, "otel-disabled", false, "trace nothing")
	p.envNamed("otel-disabled", "OTEL_SDK_DISABLED")
	f.Float64Var(&t.ratio, "trace-ratio", 1, "share of the traces begun here that are recorded, 0 to 1; when not given, OTEL_TRACES_SAMPLER decides")
	p.env("trace-ratio")
	return t
}

// resolve decides what the settings mean together.
func (t *tracing) resolve(p *parser, c *Common) {
	if p.given("trace-ratio") {
		c.Trace.Ratio = &t.ratio
	}
	endpoint := t.tracesEndpoint
	if endpoint == "" && t.endpoint != "" {
		endpoint = strings.TrimSuffix(t.endpoint, "/") + "/v1/traces"
	}
	switch {
	case endpoint == "", t.disabled, t.exporter == "none":
	case t.exporter != "otlp":
		c.Warnings = append(c.Warnings, "--traces-exporter: nothing is traced, since only otlp is known")
	case t.protocol != "http/protobuf":
		c.Warnings = append(c.Warnings, "--otlp-protocol: nothing is traced, since only http/protobuf is spoken")
	default:
		c.Trace.URL = endpoint
	}
}

func (v *checks) observe(c Common) {
	if c.Trace.URL != "" {
		u, err := url.Parse(c.Trace.URL)
		v.require(err == nil && webURL(u), "otlp-endpoint", "must be http or https, with a host and without user, query or fragment")
	}
	if r := c.Trace.Ratio; r != nil {
		v.require(*r >= 0 && *r <= 1, "trace-ratio", "must be between 0 and 1")
	}
	v.require(c.AdminAddress == "" || loopback(c.AdminAddress), "admin-address",
		"must be a loopback address with a port, as in 127.0.0.1:9090: whoever reaches it may change what is logged")
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
