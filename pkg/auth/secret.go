package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// SecretName is the Secret that holds the router's key pair.
const SecretName = "picod-router-identity"

const (
	// secretCallTimeout bounds one call to the API server.
	secretCallTimeout = 10 * time.Second
	// A call failed: the next attempt waits between these.
	secretRetryMin = 500 * time.Millisecond
	secretRetryMax = 10 * time.Second
)

// secretWatch follows that one Secret. List and watch select it by name, which
// is what lets a Role grant them for this name alone.
type secretWatch struct {
	client    kubernetes.Interface
	namespace string
	log       *zap.Logger
	informer  cache.SharedIndexInformer
	synced    cache.DoneChecker
	// changed holds at most one signal: read again.
	changed chan struct{}
}

// newSecretWatch keeps only the named entries in memory.
func newSecretWatch(
	client kubernetes.Interface, namespace string, log *zap.Logger, entries ...string,
) (*secretWatch, error) {
	w := &secretWatch{client: client, namespace: namespace, log: log, changed: make(chan struct{}, 1)}
	w.informer = coreinformers.NewFilteredSecretInformer(client, namespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, SecretName).String()
		})
	if err := w.informer.SetTransform(keepEntries(entries)); err != nil {
		return nil, fmt.Errorf("watching secret %s/%s: %w", namespace, SecretName, err)
	}
	if err := w.informer.SetWatchErrorHandlerWithContext(w.watchFailed); err != nil {
		return nil, fmt.Errorf("watching secret %s/%s: %w", namespace, SecretName, err)
	}
	registration, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.signal() },
		UpdateFunc: func(any, any) { w.signal() },
		DeleteFunc: func(any) { w.signal() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching secret %s/%s: %w", namespace, SecretName, err)
	}
	w.synced = registration.HasSyncedChecker()
	return w, nil
}

// keepEntries strips a Secret to what is needed, so that a private key is not
// held by a process that has no use for it.
func keepEntries(entries []string) cache.TransformFunc {
	return func(obj any) (any, error) {
		secret, ok := obj.(*corev1.Secret)
		if !ok {
			return obj, nil
		}
		kept := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: secret.Namespace, Name: secret.Name,
				UID: secret.UID, ResourceVersion: secret.ResourceVersion,
			},
			Data: map[string][]byte{},
		}
		for _, entry := range entries {
			if value, ok := secret.Data[entry]; ok {
				kept.Data[entry] = value
			}
		}
		return kept, nil
	}
}

// follow calls read once the Secret, or its absence, is known, after every
// change, and after the delay read asks for (zero: none), until ctx ends. All
// goroutines have ended when it returns.
func (w *secretWatch) follow(ctx context.Context, clk clock.WithTicker, read func() time.Duration) {
	// The informer backs off for up to a minute, which is long for a start.
	if !w.reach(ctx, clk) {
		return
	}
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { w.informer.RunWithContext(watching) })
	defer group.Wait()
	defer stop()

	select {
	case <-ctx.Done():
		return
	case <-w.synced.Done():
	}
	for ctx.Err() == nil {
		w.waitChange(ctx, clk, read())
	}
}

// reach waits until the API server answers for the Secret, if only that there
// is none; false when ctx ended before.
func (w *secretWatch) reach(ctx context.Context, clk clock.WithTicker) bool {
	for delay := secretRetryMin; ctx.Err() == nil; delay = min(2*delay, secretRetryMax) {
		call, cancel := context.WithTimeout(ctx, secretCallTimeout)
		_, err := w.client.CoreV1().Secrets(w.namespace).Get(call, SecretName, metav1.GetOptions{})
		cancel()
		if err == nil || apierrors.IsNotFound(err) {
			return true
		}
		if ctx.Err() == nil {
			w.log.Warn("identity secret not read, trying again",
				zap.String("namespace", w.namespace), zap.Duration("in", delay), zap.Error(err))
		}
		w.waitChange(ctx, clk, delay)
	}
	return false
}

// waitChange returns when the Secret changed, the delay has passed (zero:
// none) or ctx has ended.
func (w *secretWatch) waitChange(ctx context.Context, clk clock.WithTicker, delay time.Duration) {
	var passed <-chan time.Time
	if delay > 0 {
		timer := clk.NewTimer(delay)
		defer timer.Stop()
		passed = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-w.changed:
	case <-passed:
	}
}

// watchFailed is told of a list or watch that ended; the informer begins
// again by itself. A watch that was closed or had fallen behind is no trouble.
func (w *secretWatch) watchFailed(ctx context.Context, _ *cache.Reflector, err error) {
	level := zapcore.WarnLevel
	if errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || ctx.Err() != nil {
		level = zapcore.DebugLevel
	}
	w.log.Log(level, "watch of the identity secret ended, beginning again",
		zap.String("namespace", w.namespace), zap.Error(err))
}

// data of the Secret; ok is false while it is absent or not yet listed.
func (w *secretWatch) data() (data map[string][]byte, ok bool) {
	obj, exists, err := w.informer.GetStore().GetByKey(w.namespace + "/" + SecretName)
	if err != nil || !exists {
		return nil, false
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, false
	}
	return secret.Data, true
}

func (w *secretWatch) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // one is waiting already, and reads what is current then
	}
}
