package sandbox

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Note is what a Record holds. Annotations are where people write.
type Note struct {
	Data, Annotations map[string]string
	// version and uid are those of the ConfigMap that it was read from.
	version, uid string
}

// Record keeps a note in a ConfigMap, where operators read and answer it. What
// it says is its user's.
type Record struct {
	configMaps corev1client.ConfigMapsGetter
	namespace  string
	name       string
	timeout    time.Duration
}

// NewRecord makes a record in the ConfigMap of that name. It reads nothing yet.
func NewRecord(c corev1client.ConfigMapsGetter, namespace, name string, options ClientOptions) *Record {
	if options.CallTimeout <= 0 {
		options.CallTimeout = defaultCallTimeout
	}
	return &Record{configMaps: c, namespace: namespace, name: name, timeout: options.CallTimeout}
}

// String is "namespace/name".
func (r *Record) String() string { return r.namespace + "/" + r.name }

// Get reads the note. Errors: ErrNotFound, ErrForbidden, ErrUnavailable.
func (r *Record) Get(ctx context.Context) (Note, error) {
	return r.call(ctx, "reading", func(ctx context.Context, c corev1client.ConfigMapInterface) (*corev1.ConfigMap, error) {
		return c.Get(ctx, r.name, metav1.GetOptions{})
	})
}

// Create writes the first note. Errors: ErrExists, RejectedError, ErrUnavailable.
func (r *Record) Create(ctx context.Context, note Note) (Note, error) {
	return r.call(ctx, "creating", func(ctx context.Context, c corev1client.ConfigMapInterface) (*corev1.ConfigMap, error) {
		return c.Create(ctx, r.configMap(note), metav1.CreateOptions{FieldManager: ManagedByAgentCube})
	})
}

// Update writes a note that was read, changed, if nobody changed it meanwhile.
//
// Errors: ErrConflict, ErrNotFound, RejectedError, ErrUnavailable.
func (r *Record) Update(ctx context.Context, note Note) (Note, error) {
	return r.call(ctx, "updating", func(ctx context.Context, c corev1client.ConfigMapInterface) (*corev1.ConfigMap, error) {
		return c.Update(ctx, r.configMap(note), metav1.UpdateOptions{FieldManager: ManagedByAgentCube})
	})
}

func (r *Record) call(ctx context.Context, verb string,
	do func(context.Context, corev1client.ConfigMapInterface) (*corev1.ConfigMap, error),
) (Note, error) {
	doing := verb + " ConfigMap " + r.String()
	if err := notSent(ctx, doing); err != nil {
		return Note{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	c, err := do(bounded, r.configMaps.ConfigMaps(r.namespace))
	if err != nil {
		return Note{}, translate(ctx, err, doing)
	}
	return Note{
		Data: maps.Clone(c.Data), Annotations: maps.Clone(c.Annotations),
		version: c.ResourceVersion, uid: string(c.UID),
	}, nil
}

func (r *Record) configMap(note Note) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.namespace, Name: r.name,
			ResourceVersion: note.version, UID: types.UID(note.uid),
			Labels:      map[string]string{LabelManagedBy: ManagedByAgentCube},
			Annotations: note.Annotations,
		},
		Data: note.Data,
	}
}
