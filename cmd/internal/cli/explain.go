package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/agentcube/agentcube/cmd/internal/reach"
	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/client"
)

// ends says why a session ended, by its reason on the wire.
var ends = map[string]string{
	api.EndedIdle:             "it was not used for longer than its idle timeout",
	api.EndedExpired:          "it came to the end of its life",
	api.EndedDeleted:          "it was deleted",
	api.EndedDeletedInCluster: "its sandbox was deleted in the cluster",
	api.EndedFailed:           "its sandbox failed",
}

// explain puts an error into words: what is wrong, and in a second line what to
// do next. name is what the program is called, and command is that with the command
// that failed.
func explain(err error, name, command string) string {
	if all, ok := errors.AsType[several](err); ok {
		return explainAll(all, name, command)
	}
	what := err.Error()
	if answer, ok := errors.AsType[*client.Error](err); ok {
		what = explainAnswer(err, answer)
	}
	if next := advice(err, name, command); next != "" {
		what += "\n" + next
	}
	return what
}

// several errors of a command that did the same with several things.
type several []error

func (s several) Error() string   { return errors.Join(s...).Error() }
func (s several) Unwrap() []error { return s }

// join is nil without an error, and the error itself where there is one.
func join(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return several(errs)
}

// explainAll says what each of some errors is about, and the same advice once.
func explainAll(errs []error, name, command string) string {
	var lines, nexts []string
	for _, err := range errs {
		what, next, _ := strings.Cut(explain(err, name, command), "\n")
		lines = append(lines, what)
		if next != "" && !slices.Contains(nexts, next) {
			nexts = append(nexts, next)
		}
	}
	return strings.Join(append(lines, nexts...), "\n")
}

// explainAnswer leaves out of an answer's text what is for programs.
func explainAnswer(err error, a *client.Error) string {
	// What was being done stands in front of the answer.
	doing, _ := strings.CutSuffix(err.Error(), a.Error())
	what := doing + a.Message
	if a.Message == "" {
		what = fmt.Sprintf("%sanswer %d, which is not one of AgentCube's", doing, a.Status)
	}
	if errors.Is(a, client.ErrSessionNotFound) {
		what = doing + whyGone(a.Reason)
	}
	if a.RequestID != "" {
		what += " (request " + a.RequestID + ")"
	}
	return what
}

// whyGone says why there is no such session. Reasons are kept for an hour.
func whyGone(reason string) string {
	if reason == "" {
		return "there is no such session, or it ended more than an hour ago"
	}
	if why := ends[reason]; why != "" {
		return "the session has ended: " + why
	}
	return "the session has ended: " + reason
}

// advice by what an error is.
func advice(err error, name, command string) string {
	if cut, ok := errors.AsType[*cutOffError](err); ok {
		return cut.next
	}
	if a, ok := errors.AsType[*client.Error](err); ok {
		return adviceOnAnswer(a, name)
	}
	if _, ok := errors.AsType[*reach.NoWayError](err); ok {
		return "Give the URL of the service, with --workload-manager-url or --router-url, or check with `" + name + " doctor`."
	}
	if _, ok := errors.AsType[*usageError](err); ok || strings.HasPrefix(err.Error(), "unknown command") {
		return "See `" + command + " --help`."
	}
	if errors.Is(err, client.ErrAnswer) {
		return "What answers is not AgentCube, or much newer than this program: check the URL."
	}
	return adviceOnCluster(err, name)
}

// adviceOnCluster is about what the API server says, and about there being no
// answer.
func adviceOnCluster(err error, name string) string {
	_, isURL := errors.AsType[*url.Error](err)
	var status apierrors.APIStatus
	isStatus := errors.As(err, &status)
	switch {
	case errors.Is(err, errNoCluster), clientcmd.IsEmptyConfig(err), clientcmd.IsConfigurationInvalid(err):
		return "Say which cluster is meant with --kubeconfig or --context."
	case isStatus && apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Name == "":
		return "The cluster does not know the resource: check the installation with `" + name + " doctor`."
	case isStatus && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)):
		return "Ask an administrator of the cluster for this right."
	case errors.Is(err, context.Canceled):
		return ""
	case isURL:
		return "Check the URL, and the installation with `" + name + " doctor`."
	}
	return ""
}

func adviceOnAnswer(a *client.Error, name string) string {
	is := func(target error) bool { return errors.Is(a, target) }
	switch {
	case a.Code == "" && a.Status == 404, a.Code == api.CodeNotFound, a.Code == api.CodeMethodNotAllowed:
		return "The server does not know this call: check that the URL is right, and that it is not older than this program."
	case is(client.ErrSessionNotFound), is(client.ErrSessionEnded):
		return "See which sessions there are with `" + name + " sessions list`, or make a new one with `" + name + " sessions create`."
	case is(client.ErrTemplateNotFound):
		return "See which templates there are with `" + name + " templates list -A`, and give the right namespace with -n."
	case is(client.ErrUnauthenticated):
		return "Give a valid token in the variable AGENTCUBE_TOKEN."
	case is(client.ErrForbidden):
		return "Only its owner, or who has the right in that namespace, may do this: check the token in AGENTCUBE_TOKEN."
	case is(client.ErrKeyReused):
		return "Take another --idempotency-key, or repeat the command exactly as it was."
	case is(client.ErrQuotaExceeded):
		return "End sessions that are not needed, or ask for a larger quota" + after(a.RetryAfter)
	case is(client.ErrUnavailable):
		return "Try again" + strings.TrimSuffix(after(a.RetryAfter), ".") + ", and see what is wrong with `" + name + " doctor`."
	case a.Code == api.CodeSessionTargetMismatch:
		return "Give the template that the session was made from; `" + name + " sessions get` shows it."
	case a.Code == api.CodeSandboxFailed, a.Code == api.CodeCreateTimeout, a.Code == api.CodeSandboxUnreachable, a.Code == api.CodeSandboxTimeout:
		return "See what its pod says with `kubectl describe pod`, and check the template."
	case a.Status >= 500:
		return "Look into the service's log for the request, and check the installation with `" + name + " doctor`."
	}
	return ""
}

// after ends a sentence with how long to wait.
func after(d time.Duration) string {
	if d <= 0 {
		return "."
	}
	return fmt.Sprintf(", in %s at the earliest.", d)
}
