package cluster

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/test/cluster/node"
	"github.com/agentcube/agentcube/test/cluster/process"
)

// startControlPlane starts the programs in the order of their dependence; what
// does not depend on each other starts side by side.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	// 1. Credentials: every program reads some.
	if err := c.phase("credentials", c.writeCredentials); err != nil {
		return err
	}
	// 2. etcd: the API server does nothing without it.
	if err := c.phase("etcd", func() error { return c.startEtcd(ctx) }); err != nil {
		return err
	}
	// 3. The API server.
	if err := c.phase("kube-apiserver", func() error { return c.startAPIServer(ctx) }); err != nil {
		return err
	}
	// 4. The node needs no custom resource. The controllers do: agent-sandbox ends
	// when its resources are not served, and the garbage collector would not see
	// them for 30 s.
	return inParallel(
		func() error { return c.phase("node", func() error { return c.startNode(ctx) }) },
		func() error { return c.startControllers(ctx) },
	)
}

func (c *Cluster) startControllers(ctx context.Context) error {
	webhook, err := c.reserveWebhook()
	if err != nil {
		return err
	}
	if err := c.phase("custom resources", func() error { return c.installCRDs(ctx, webhook) }); err != nil {
		return err
	}
	return inParallel(
		func() error {
			return c.phase("kube-controller-manager", func() error { return c.startControllerManager(ctx) })
		},
		func() error {
			return c.phase("agent-sandbox-controller", func() error { return c.startController(ctx, webhook) })
		},
	)
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	return c.ports.onFreePorts(2, func(p []*process.Port) error {
		client, peer := "http://"+p[0].Address(), "http://"+p[1].Address()
		c.Etcd = process.New(process.Spec{
			Name: "etcd",
			Path: c.paths.etcd,
			Log:  filepath.Join(c.logDir(), "etcd.log"),
			Args: []string{
				"--name=default",
				"--data-dir=" + filepath.Join(c.Dir, "etcd"),
				"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
				"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
				"--initial-cluster=default=" + peer,
				// The data is worth nothing after a crash of the machine.
				"--unsafe-no-fsync",
				"--log-level=warn",
			},
			Ready: probe(client+"/health", nil, ""),
		})
		c.etcdURL = client
		return c.Etcd.Start(ctx)
	})
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	err := c.ports.onFreePorts(1, func(p []*process.Port) error {
		server := "https://" + p[0].Address()
		c.config = c.restConfig(server, c.tokens.admin)
		c.APIServer = process.New(process.Spec{
			Name:  "kube-apiserver",
			Path:  c.paths.apiServer,
			Log:   filepath.Join(c.logDir(), "kube-apiserver.log"),
			Args:  c.apiServerArgs(p[0]),
			Ready: apiServerReady(server, c.ca, c.tokens.admin, c.served),
			// An orderly end waits for clients with open watches, up to a minute. etcd
			// has all that was answered, so nothing is lost by not waiting.
			StopWithin: 3 * time.Second,
		})
		return c.APIServer.Start(ctx)
	})
	if err != nil {
		return err
	}
	if c.applier, err = newApplier(c.config); err != nil {
		return err
	}
	c.Kubeconfig, err = c.writeKubeconfig("admin", "default", c.tokens.admin)
	return err
}

// served tells whether discovery shows every custom resource that was installed.
func (c *Cluster) served() error {
	if c.applier == nil {
		return nil // the first start
	}
	return c.applier.served()
}

func (c *Cluster) apiServerArgs(port *process.Port) []string {
	cert := func(name string) string { return filepath.Join(c.certDir(), name) }
	return []string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=127.0.0.1", "--secure-port=" + port.String(),
		"--tls-cert-file=" + cert("tls.crt"), "--tls-private-key-file=" + cert("tls.key"),
		"--token-auth-file=" + cert("tokens.csv"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cert("service-accounts.crt"),
		"--service-account-signing-key-file=" + cert("service-accounts.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		// The plugin would hold up pods until their namespace has its account.
		"--disable-admission-plugins=ServiceAccount",
		// Nothing reaches the API server through its Service, and the only address
		// it has may not stand in Endpoints.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
	}
}

func (c *Cluster) startControllerManager(ctx context.Context) error {
	kubeconfig, err := c.writeKubeconfig("controller-manager", "", c.tokens.controllerManager)
	if err != nil {
		return err
	}
	return c.ports.onFreePorts(1, func(p []*process.Port) error {
		c.ControllerManager = process.New(process.Spec{
			Name: "kube-controller-manager",
			Path: c.paths.controllerManager,
			Log:  filepath.Join(c.logDir(), "kube-controller-manager.log"),
			Args: []string{
				"--kubeconfig=" + kubeconfig,
				"--bind-address=127.0.0.1", "--secure-port=" + p[0].String(),
				"--tls-cert-file=" + filepath.Join(c.certDir(), "tls.crt"),
				"--tls-private-key-file=" + filepath.Join(c.certDir(), "tls.key"),
				"--root-ca-file=" + filepath.Join(c.certDir(), "ca.crt"),
				"--controllers=garbage-collector-controller,namespace-controller," +
					"serviceaccount-controller,root-ca-certificate-publisher-controller",
				"--leader-elect=false",
				// The defaults (20 and 30) clear a large namespace in minutes.
				"--kube-api-qps=1000", "--kube-api-burst=2000",
			},
			Ready: allOf(
				probe("https://"+p[0].Address()+"/healthz", c.ca, ""),
				logged(&c.ControllerManager, 1, "all resource monitors have synced"), // the garbage collector
			),
		})
		return c.ControllerManager.Start(ctx)
	})
}

// startNode runs the node until Stop.
func (c *Cluster) startNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.restConfig(c.config.Host, c.tokens.node))
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(c.logDir(), "node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	c.Node, err = node.New(clock.RealClock{}, node.Options{
		Client: client, BootTime: c.options.BootTime, AtEnd: c.options.AtEnd, Log: log,
	})
	if err != nil {
		log.Close()
		return err
	}
	// The node outlives ctx until Stop, which keeps the order.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- c.Node.Run(runCtx) }()
	c.stopNode = func() {
		cancel()
		<-ended
		log.Close()
	}
	select {
	case <-c.Node.Ready():
		return nil
	case err := <-ended:
		ended <- nil // stopNode waits for it
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
