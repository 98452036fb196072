package cluster

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// tokenSeconds is how long a service account's token is valid: longer than any
// run, since nothing renews it.
const tokenSeconds = 24 * 3600

// ServiceAccountToken asks the API server for a token of a service account that
// exists.
func (c *Cluster) ServiceAccountToken(ctx context.Context, namespace, name string) (string, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return "", err
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)},
	}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of service account %s/%s: %w", namespace, name, err)
	}
	return answer.Status.Token, nil
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of a service account
// that exists, and returns its path: whoever uses it has exactly the rights that
// RBAC gives to the account.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	token, err := c.ServiceAccountToken(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	return c.writeKubeconfig(namespace+"-"+name, namespace, token)
}
