package workload

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fields reads an object of unstructured data. What is wrong with a field is
// added to problems with the field's path, and the zero value is read in its
// place, so that one look shows all that is wrong. A null counts as absent.
type fields struct {
	data     map[string]any
	path     *field.Path
	problems *[]string
}

func (f fields) at(key string) *field.Path {
	if f.path == nil {
		return field.NewPath(key)
	}
	return f.path.Child(key)
}

func (f fields) problem(at *field.Path, format string, args ...any) {
	text := at.String() + ": " + fmt.Sprintf(format, args...)
	// A field that is read twice is wrong once.
	if !slices.Contains(*f.problems, text) {
		*f.problems = append(*f.problems, text)
	}
}

// value is the field's, if it is there and of this type.
func value[T any](f fields, key, want string) (T, bool) {
	raw := f.data[key]
	typed, ok := raw.(T)
	if raw != nil && !ok {
		f.problem(f.at(key), "must be %s", want)
	}
	return typed, ok
}

func (f fields) text(key string) string {
	text, _ := value[string](f, key, "a string")
	return text
}

func (f fields) integer(key string) (int64, bool) {
	return value[int64](f, key, "an integer")
}

// object is empty if the field is absent.
func (f fields) object(key string) fields {
	data, _ := value[map[string]any](f, key, "an object")
	return fields{data: data, path: f.at(key), problems: f.problems}
}

func (f fields) list(key string) []any {
	list, _ := value[[]any](f, key, "a list")
	return list
}

// objects is a list of them; others in the list are left out, as problems.
func (f fields) objects(key string) []fields {
	var objects []fields
	for i, item := range f.list(key) {
		at := f.at(key).Index(i)
		data, ok := item.(map[string]any)
		if !ok {
			f.problem(at, "must be an object")
			continue
		}
		objects = append(objects, fields{data: data, path: at, problems: f.problems})
	}
	return objects
}

// texts is a list of strings, as it stands in unstructured data.
func (f fields) texts(key string) []any {
	list := f.list(key)
	for i, item := range list {
		if _, ok := item.(string); !ok {
			f.problem(f.at(key).Index(i), "must be a string")
		}
	}
	return list
}

// textMap is nil if the field is absent or empty.
func (f fields) textMap(key string) map[string]string {
	object := f.object(key)
	if len(object.data) == 0 {
		return nil
	}
	texts := make(map[string]string, len(object.data))
	for name, raw := range object.data {
		text, ok := raw.(string)
		if !ok {
			f.problem(object.path.Key(name), "must be a string")
			continue
		}
		texts[name] = text
	}
	return texts
}

// duration reads a Go duration. A field that is absent or empty is fallback.
func (f fields) duration(key string, fallback time.Duration) time.Duration {
	text := f.text(key)
	if text == "" {
		return fallback
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		f.problem(f.at(key), "must be a duration such as 15m or 8h, is %.64q", text)
	case d < 0:
		f.problem(f.at(key), "must not be negative, is %s", text)
	}
	return d
}
