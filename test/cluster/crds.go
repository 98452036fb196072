package cluster

import (
	"context"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/test/cluster/process"
)

// installCRDs installs the definitions of agent-sandbox and those of the options,
// and returns once all are served. Those that convert by webhook are pointed at
// the port on loopback.
func (c *Cluster) installCRDs(ctx context.Context, webhook *process.Port) error {
	crds, err := readManifests(c.paths.sandboxCRDs)
	if err != nil {
		return err
	}
	for _, crd := range crds {
		converts, err := pointWebhook(crd, webhook.Address(), c.ca)
		if err != nil {
			return err
		}
		c.converts = c.converts || converts
	}
	for _, path := range c.options.CRDs {
		more, err := readManifests(path)
		if err != nil {
			return err
		}
		crds = append(crds, more...)
	}
	return c.applier.apply(ctx, crds)
}

// pointWebhook makes a definition that converts by webhook call address instead
// of a Service, and tells whether it does convert by webhook.
func pointWebhook(crd *unstructured.Unstructured, address string, ca []byte) (bool, error) {
	strategy, _, err := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", crd.GetName(), err)
	}
	if strategy != "Webhook" {
		return false, nil
	}
	clientConfig := map[string]any{
		"url":      "https://" + address + "/convert",
		"caBundle": base64.StdEncoding.EncodeToString(ca),
	}
	err = unstructured.SetNestedMap(crd.Object, clientConfig, "spec", "conversion", "webhook", "clientConfig")
	return true, err
}
