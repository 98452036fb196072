package workloadmanager

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	k8sjson "sigs.k8s.io/json"
)

// Bounds of a create request.
const (
	maxBody     = 1 << 20
	maxMetadata = 4 << 10
)

// createRequest is a create request whose every field was checked.
type createRequest struct {
	name, namespace string
	ttl, idle       time.Duration
	metadata        json.RawMessage
}

// wireRequest keeps the numbers as they were written, since only plain
// integers are allowed.
type wireRequest struct {
	Name        string          `json:"name"`
	Namespace   string          `json:"namespace"`
	TTL         json.RawMessage `json:"ttl"`
	IdleTimeout json.RawMessage `json:"idleTimeout"`
	Metadata    json.RawMessage `json:"metadata"`
}

func readCreateRequest(w http.ResponseWriter, r *http.Request) (createRequest, error) {
	body, err := readBody(w, r)
	if err != nil {
		return createRequest{}, err
	}
	return parseCreateRequest(body)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, invalidBody(err)
	}
	return body, nil
}

func parseCreateRequest(body []byte) (createRequest, error) {
	if !utf8.Valid(body) {
		return createRequest{}, invalidBody(errors.New("not valid UTF-8"))
	}
	var wire wireRequest
	strict, err := k8sjson.UnmarshalStrict(body, &wire, k8sjson.DisallowDuplicateFields)
	if err = errors.Join(append(strict, err)...); err != nil {
		return createRequest{}, invalidBody(err)
	}
	request := createRequest{name: wire.Name, namespace: wire.Namespace, metadata: wire.Metadata}
	if err := checkNames(wire.Namespace, wire.Name); err != nil {
		return createRequest{}, err
	}
	if request.ttl, err = seconds("ttl", wire.TTL); err != nil {
		return createRequest{}, err
	}
	if request.idle, err = seconds("idleTimeout", wire.IdleTimeout); err != nil {
		return createRequest{}, err
	}
	if absent(wire.Metadata) {
		request.metadata = nil
		return request, nil
	}
	if wire.Metadata[0] != '{' {
		return createRequest{}, invalid("metadata must be an object")
	}
	if len(wire.Metadata) > maxMetadata {
		return createRequest{}, invalid(fmt.Sprintf("metadata must not be larger than %d bytes", maxMetadata))
	}
	return request, nil
}

func checkNames(namespace, name string) error {
	if namespace == "" {
		return invalid("namespace is required")
	}
	if name == "" {
		return invalid("name is required")
	}
	if err := checkNamespace(namespace); err != nil {
		return err
	}
	return checkName(name)
}

func checkNamespace(namespace string) error {
	if len(validation.IsDNS1123Label(namespace)) > 0 {
		return invalid("namespace must be a DNS label: at most 63 lower-case letters, digits and '-'")
	}
	return nil
}

func checkName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return invalid("name must be a DNS name: at most 253 lower-case letters, digits, '-' and '.'")
	}
	return nil
}

// seconds reads a lifetime. Zero: absent.
func seconds(field string, literal json.RawMessage) (time.Duration, error) {
	if absent(literal) {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(literal), 10, 64)
	if err != nil || n < 1 || n > math.MaxInt32 {
		return 0, invalid(fmt.Sprintf("%s must be a whole number of seconds from 1 to %d", field, math.MaxInt32))
	}
	return time.Duration(n) * time.Second, nil
}

func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}
