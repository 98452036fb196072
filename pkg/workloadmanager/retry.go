package workloadmanager

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// maxKey is how many bytes an Idempotency-Key may have.
const maxKey = 255

// manner is how a create is to be made, by its headers. Zero: as ever.
type manner struct {
	// key is the Idempotency-Key, as it came. Empty: there was none.
	key string
	// async: the caller does not want to wait until the session is ready.
	async bool
}

// readManner reads the headers. One Idempotency-Key is allowed, of 1 to 255
// bytes, which may be any that a header can hold.
func readManner(h http.Header) (manner, error) {
	how := manner{async: prefersAsync(h.Values(api.HeaderPrefer))}
	keys, present := h[http.CanonicalHeaderKey(api.HeaderIdempotencyKey)]
	switch {
	case !present:
		return how, nil
	case len(keys) != 1:
		return manner{}, invalid("Idempotency-Key must be given once")
	case keys[0] == "":
		return manner{}, invalid("Idempotency-Key must not be empty")
	case len(keys[0]) > maxKey:
		return manner{}, invalid(fmt.Sprintf("Idempotency-Key must not be longer than %d bytes", maxKey))
	}
	how.key = keys[0]
	return how, nil
}

// prefersAsync reports whether respond-async is among the preferences (RFC 7240).
// A preference is a wish: one that cannot be read is none.
func prefersAsync(values []string) bool {
	for _, value := range values {
		for _, preference := range splitOutsideQuotes(value, ',') {
			preference = splitOutsideQuotes(preference, ';')[0] // without parameters
			name, given, _ := strings.Cut(preference, "=")
			given = strings.TrimSpace(given)
			// An empty value is the same as none.
			if strings.EqualFold(strings.TrimSpace(name), api.PreferAsync) && (given == "" || given == `""`) {
				return true
			}
		}
	}
	return false
}

// splitOutsideQuotes splits a header's value at a separator that stands in no
// quoted string.
func splitOutsideQuotes(value string, separator byte) []string {
	var parts []string
	quoted, from := false, 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++ // what it quotes
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts = append(parts, value[from:i])
			from = i + 1
		}
	}
	return append(parts, value[from:])
}

// status is that of the answer, and sets the headers that belong to it.
func (m manner) status(h http.Header, id string) int {
	if !m.async {
		return http.StatusOK
	}
	h.Set("Location", "/v1/sessions/"+id)
	h.Set(api.HeaderPreferenceApplied, api.PreferAsync)
	return http.StatusAccepted
}

// scope is what an Idempotency-Key belongs to, besides the namespace.
type scope struct {
	// kind stands for the route.
	kind string
	// owner is the caller, where one is named. Callers that nobody names share
	// their keys.
	owner string
}

// make makes a session in the given manner.
func (s *Server) make(ctx context.Context, how manner, request createRequest, of scope,
	order func(context.Context) (provision.Request, error),
) (session.Session, error) {
	if how == (manner{}) {
		r, err := order(ctx)
		if err != nil {
			return session.Session{}, err
		}
		return s.Sessions.Create(ctx, r)
	}
	call := provision.Call{Async: how.async, Order: order}
	if how.key != "" {
		body, err := request.hash()
		if err != nil {
			return session.Session{}, err
		}
		call.Key = session.RetryKey{
			Name: hash("idempotency-key", of.owner, of.kind, request.namespace, how.key),
			Body: body,
		}
	}
	return s.Sessions.Submit(ctx, call)
}

// hash of all known fields, as they were decoded: spaces, the order of fields
// and escapes make no difference. Numbers in the metadata are compared as they
// were written, since they are kept so.
func (r createRequest) hash() (string, error) {
	var metadata []byte
	if r.metadata != nil {
		var value any
		decoder := json.NewDecoder(bytes.NewReader(r.metadata))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			return "", invalidBody(err)
		}
		var err error
		if metadata, err = json.Marshal(value); err != nil {
			return "", fmt.Errorf("hashing the metadata: %w", err)
		}
	}
	return hash("create", r.namespace, r.name, r.ttl.String(), r.idle.String(), string(metadata)), nil
}

// hash of all parts, each with its length, so that none can pass for another.
func hash(parts ...string) string {
	digest := sha256.New()
	for _, part := range parts {
		_ = binary.Write(digest, binary.BigEndian, uint64(len(part))) // a hash takes everything
		digest.Write([]byte(part))
	}
	return hex.EncodeToString(digest.Sum(nil))
}
