package router

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

// reference is how a request names its session.
type reference struct {
	// given: the request names one, rightly or not.
	given bool
	// id is empty if what was given cannot name a session.
	id string
}

// sessionReference reads the session's name from the header or, for browsers,
// which cannot set one on a WebSocket, from the cookie or the query parameter
// of the same name, in this order. Values of one place that contradict each
// other name nothing: a request must not reach a session by chance.
func sessionReference(header http.Header, query string) reference {
	if values := header[headerSessionID]; len(values) > 0 {
		return referenceOf(values)
	}
	if _, values := cutCookie(header["Cookie"]); len(values) > 0 {
		return referenceOf(values)
	}
	_, values := cutParameter(query)
	return referenceOf(values)
}

func referenceOf(values []string) reference {
	if len(values) == 0 {
		return reference{}
	}
	for _, v := range values {
		if v != values[0] || !session.ValidID(v) {
			return reference{given: true}
		}
	}
	return reference{given: true, id: values[0]}
}

// cutParameter takes the session parameter out of a raw query and leaves the
// rest as it is, byte for byte. A value that cannot be decoded comes back as
// it stands: it is no valid id.
func cutParameter(query string) (rest string, values []string) {
	// The name has nothing to escape, but a client may have escaped it.
	if !strings.Contains(query, api.HeaderSessionID) && !strings.Contains(query, "%") {
		return query, nil
	}
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(key); err != nil || decoded != api.HeaderSessionID {
			kept = append(kept, pair)
			continue
		}
		if decoded, err := url.QueryUnescape(value); err == nil {
			value = decoded
		}
		values = append(values, value)
	}
	if values == nil {
		return query, nil
	}
	return strings.Join(kept, "&"), values
}

// cutCookie takes the session cookie out of Cookie headers and leaves the
// rest of each as it is. A header that held nothing else is left out.
func cutCookie(headers []string) (rest, values []string) {
	for _, line := range headers {
		var kept []string
		found := false
		for pair := range strings.SplitSeq(line, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if strings.TrimSpace(name) != api.HeaderSessionID {
				kept = append(kept, pair)
				continue
			}
			found = true
			values = append(values, strings.Trim(strings.TrimSpace(value), `"`))
		}
		switch {
		case !found:
			rest = append(rest, line)
		case strings.TrimSpace(strings.Join(kept, "")) != "":
			rest = append(rest, strings.TrimLeft(strings.Join(kept, ";"), " "))
		}
	}
	return rest, values
}
