package doctor

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const checkAPIServer = "API server"

// apiServer also compares its clock with this machine's.
func (d *Doctor) apiServer(ctx context.Context) []Finding {
	version, err := d.Kubernetes.Discovery().ServerVersion()
	if err != nil {
		return one(checkAPIServer, Broken, "it does not answer: "+err.Error(),
			"check --kubeconfig and --context, and whether `kubectl version` answers")
	}
	found := one(checkAPIServer, OK, "it answers, version "+version.GitVersion, "")
	if date, ok := d.dateOfAPIServer(ctx); ok {
		found = append(found, d.skew("clock of the API server", date))
	}
	return found
}

// dateOfAPIServer is the Date of an answer; the clientset does not tell it.
func (d *Doctor) dateOfAPIServer(ctx context.Context) (time.Time, bool) {
	client, ok := d.Kubernetes.Discovery().RESTClient().(*rest.RESTClient)
	if !ok || client == nil || client.Client == nil { // a fake
		return time.Time{}, false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, client.Get().AbsPath("/version").URL().String(), http.NoBody)
	if err != nil {
		return time.Time{}, false
	}
	res, err := client.Client.Do(req)
	if err != nil {
		return time.Time{}, false
	}
	_ = res.Body.Close()
	return dateOf(res.Header)
}

func dateOf(h http.Header) (time.Time, bool) {
	at, err := http.ParseTime(h.Get("Date"))
	return at, err == nil
}

// Bounds on how far two clocks may be apart. Times on the wire are full seconds.
// The router's tokens and a session's times stand a few seconds; beyond a minute
// tokens are refused and sessions end early.
const (
	skewSeen   = 3 * time.Second
	skewBroken = time.Minute
)

// skew judges a clock against this machine's.
func (d *Doctor) skew(check string, at time.Time) Finding {
	apart := d.Clock.Now().Sub(at)
	// The date is cut off to the second.
	switch text := apart.Round(time.Second).Abs().String(); {
	case apart.Abs() < skewSeen:
		return Finding{Check: check, Verdict: OK, Message: "it agrees with this machine's"}
	case apart.Abs() < skewBroken:
		return Finding{
			Check: check, Verdict: Warning, Message: fmt.Sprintf("it is %s off this machine's", text),
			Fix: "keep the clocks of the nodes, and of this machine, by NTP",
		}
	default:
		return Finding{
			Check: check, Verdict: Broken,
			Message: fmt.Sprintf("it is %s off this machine's: tokens are refused, and sessions end at the wrong time", text),
			Fix:     "set the clock that is wrong, and keep the clocks of the nodes, and of this machine, by NTP",
		}
	}
}
