// Package cluster is the development cluster: a real Kubernetes control plane on
// loopback (etcd, API server, controller manager), a real agent-sandbox
// controller and a simulated node whose pods really answer. Tests and the demo
// run on it; it needs neither root nor containers.
//
// It knows nothing of AgentCube itself: what is installed into the cluster and
// run against it is the business of its callers.
package cluster
