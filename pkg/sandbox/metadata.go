package sandbox

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/agentcube/agentcube/pkg/session"
)

// metadataPage is how many objects one call lists. A page of them is some
// megabytes, most of it managed fields, which are dropped at once.
const metadataPage = 500

// ErrExpired: the API server does not continue a list that it began, since too
// much has changed since. It is to be begun anew.
var ErrExpired = errors.New("list expired")

// Metadata is what is known of an object without its spec and status.
type Metadata struct {
	Ref       session.ObjectRef
	SessionID string
	// Installation is empty on objects of installations that set no label.
	Installation string
	CreatedAt    time.Time
	// Deleting: a deletionTimestamp is set.
	Deleting bool
	// Controlled: another object owns it as its controller, which makes it
	// anew when it is deleted, and deletes it when its time has come.
	Controlled bool
}

// Lister lists the metadata of all objects that bear LabelSessionID, from the
// API server.
type Lister struct {
	metadata metadata.Interface
	api      API
	timeout  time.Duration
	page     int64
}

// NewLister makes a lister with the credentials of m.
func NewLister(m metadata.Interface, api API, options ClientOptions) *Lister {
	if options.CallTimeout <= 0 {
		options.CallTimeout = defaultCallTimeout
	}
	return &Lister{metadata: m, api: api, timeout: options.CallTimeout, page: metadataPage}
}

// List hands all objects to visit, in pages, each kind as it was at one moment
// after the call began. An error of visit ends it and is returned as it is.
//
// Errors: ErrExpired, ErrForbidden, ErrNotServed, ErrUnavailable.
func (l *Lister) List(ctx context.Context, visit func([]Metadata) error) error {
	for _, kind := range []string{session.KindSandbox, session.KindSandboxClaim} {
		resource, err := l.api.of(kind)
		if err != nil {
			return err
		}
		if err := l.list(ctx, kind, resource, visit); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lister) list(ctx context.Context, kind string, resource schema.GroupVersionResource, visit func([]Metadata) error) error {
	// Without a resource version the first page is read from what the API
	// server has agreed on, not from a cache of its own; the token holds the
	// other pages to the same moment.
	options := metav1.ListOptions{LabelSelector: LabelSessionID, Limit: l.page}
	for {
		list, err := l.call(ctx, resource, options)
		if err != nil {
			return err
		}
		page := make([]Metadata, 0, len(list.Items))
		for i := range list.Items {
			page = append(page, metadataOf(kind, &list.Items[i]))
		}
		if err := visit(page); err != nil {
			return err
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

func (l *Lister) call(ctx context.Context, resource schema.GroupVersionResource, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	doing := "listing the metadata of " + resource.Resource
	if err := notSent(ctx, doing); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	list, err := l.metadata.Resource(resource).List(bounded, options)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil, &callError{doing: doing, kind: ErrExpired, cause: err}
	}
	return list, translate(ctx, err, doing)
}

func metadataOf(kind string, o *metav1.PartialObjectMetadata) Metadata {
	return Metadata{
		Ref:          session.ObjectRef{Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)},
		SessionID:    o.Labels[LabelSessionID],
		Installation: o.Labels[LabelInstallation],
		CreatedAt:    o.CreationTimestamp.Time,
		Deleting:     o.DeletionTimestamp != nil,
		Controlled:   metav1.GetControllerOfNoCopy(o) != nil,
	}
}
