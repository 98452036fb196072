package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// serviceTimeout bounds the wait for a service's answer.
const serviceTimeout = 5 * time.Second

// fixes by what a service says is failing.
var fixes = map[string]string{
	"store":   "check that Redis runs, and REDIS_ADDR and REDIS_PASSWORD (or VALKEY_…) in the Secret agentcube-store; the service's log has the cause",
	"cluster": "check that the API server is reachable from the pod, and the rights above; the service's log has the cause",
	"resync": "a removal of many objects waits for you: read with `kubectl -n NAMESPACE get configmap agentcube-workload-manager -o yaml` " +
		"what it is and how to confirm it; or mend the store, which may have been emptied or swapped",
	"identity-key": "the router makes the Secret picod-router-identity: check that it runs, in the same namespace (NAMESPACE), with its rights",
}

// service asks one for its readiness and for what it depends on.
func (d *Doctor) service(ctx context.Context, name string) []Finding {
	base, err := d.Service(ctx, name)
	if err != nil {
		return one(name, Broken, err.Error(), fmt.Sprintf(
			"check with `kubectl -n %s get pods,service` that it runs; or give its URL with --%s-url", d.Namespace, name))
	}
	ctx, cancel := context.WithTimeout(ctx, serviceTimeout)
	defer cancel()
	url := base.JoinPath("/readyz").String()
	header, body, err := d.get(ctx, url)
	if err != nil {
		return one(name, Broken, "it does not answer: "+err.Error(), fmt.Sprintf(
			"check that %s is its URL, and with `kubectl -n %s get pods` that it runs", base, d.Namespace))
	}
	var told struct {
		Status  string            `json:"status"`
		Details map[string]string `json:"details"`
	}
	if json.Unmarshal(body, &told) != nil || told.Status == "" {
		return one(name, Broken, url+" is not answered as AgentCube does",
			fmt.Sprintf("check that %s is the URL of the %s", base, name))
	}
	found := one(name, OK, "it is ready", "")
	if told.Status != "ready" {
		found = one(name, Broken, "it is "+told.Status, "wait for it; if it stays so, its log says why")
	}
	for _, detail := range slices.Sorted(maps.Keys(told.Details)) {
		found = append(found, d.judge(name, detail, told.Details[detail]))
	}
	if date, ok := dateOf(header); ok {
		found = append(found, d.skew("clock of the "+name, date))
	}
	return found
}

// judge what a service says of something it depends on.
func (d *Doctor) judge(service, detail, state string) Finding {
	check := fmt.Sprintf("%s as the %s sees it", detail, service)
	if state == "ok" {
		return Finding{Check: check, Verdict: OK, Message: "it is in order"}
	}
	fix := strings.ReplaceAll(fixes[detail], "NAMESPACE", d.Namespace)
	if fix == "" {
		fix = "the service's log has the cause"
	}
	return Finding{Check: check, Verdict: Broken, Message: "it is " + state, Fix: fix}
}

func (d *Doctor) get(ctx context.Context, url string) (http.Header, []byte, error) {
	const most = 64 << 10
	client := d.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	return res.Header, body, err
}
