package node

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Prefix of the annotations by which a pod says how it behaves. Annotations of a
// pod template reach the pod.
const Prefix = "node.agentcube.dev/"

// The annotations.
const (
	// BootTime is how long the pod takes from being bound to being Ready ("2s").
	BootTime = Prefix + "boot-time"
	// ListenDelay is how long after Ready the ports start to listen ("2s").
	ListenDelay = Prefix + "listen-delay"
	// NeverListen ("true") makes the pod Ready without ever listening.
	NeverListen = Prefix + "never-listen"
	// NeverReady ("true") makes the pod run and listen but never be Ready.
	NeverReady = Prefix + "never-ready"
	// Fail makes the pod Failed when it would have become Ready; the value is the
	// message.
	Fail = Prefix + "fail"
	// Exit makes the containers end when the pod would have become Ready, with
	// this exit code: "0" is Succeeded, any other Failed.
	Exit = Prefix + "exit"
	// AtEnd is what the address does after the pod: "refuse" or "silent".
	AtEnd = Prefix + "at-end"
	// SilentFor is how long a silent address stays so ("30s"); then it refuses.
	SilentFor = Prefix + "silent-for"
	// SameAddress ("true") gives a pod the address that the last pod of its name
	// had; otherwise it gets a new one.
	SameAddress = Prefix + "same-address"
	// TLSPorts lists container ports that serve TLS ("8443,9443"), besides those
	// whose name is "https".
	TLSPorts = Prefix + "tls-ports"
)

// End is what the address of a pod does when the pod ends.
type End string

const (
	// Refuse closes all connections and refuses new ones.
	Refuse End = "refuse"
	// Silent leaves open connections unanswered and lets dials hang.
	Silent End = "silent"
)

// behaviour is what the annotations of a pod ask for.
type behaviour struct {
	bootTime, listenDelay, silentFor     time.Duration
	neverListen, neverReady, sameAddress bool
	fails, exits                         bool
	failMessage                          string
	exitCode                             int32
	atEnd                                End
	tlsPorts                             []int32
}

// behaviourOf reads annotations; defaults come from the node's options. Anything
// with our prefix that is not understood is an error: a test that misspells an
// annotation must not pass.
func behaviourOf(annotations map[string]string, defaults Options) (behaviour, error) {
	b := behaviour{bootTime: defaults.BootTime, silentFor: defaults.SilentFor, atEnd: defaults.AtEnd}
	for key, value := range annotations {
		if !strings.HasPrefix(key, Prefix) {
			continue
		}
		if err := b.set(key, value); err != nil {
			return behaviour{}, fmt.Errorf("annotation %s: %w", key, err)
		}
	}
	return b, nil
}

func (b *behaviour) set(key, value string) (err error) {
	switch key {
	case BootTime:
		b.bootTime, err = time.ParseDuration(value)
	case ListenDelay:
		b.listenDelay, err = time.ParseDuration(value)
	case SilentFor:
		b.silentFor, err = time.ParseDuration(value)
	case NeverListen:
		b.neverListen, err = strconv.ParseBool(value)
	case NeverReady:
		b.neverReady, err = strconv.ParseBool(value)
	case SameAddress:
		b.sameAddress, err = strconv.ParseBool(value)
	case Fail:
		b.fails, b.failMessage = true, value
	case Exit:
		var code int64
		code, err = strconv.ParseInt(value, 10, 32)
		b.exits, b.exitCode = true, int32(code)
	case AtEnd:
		b.atEnd, err = parseEnd(value)
	case TLSPorts:
		b.tlsPorts, err = parsePorts(value)
	default:
		err = fmt.Errorf("not known")
	}
	return err
}

// endPhase is the phase of a pod that fails or exits.
func (b behaviour) endPhase() corev1.PodPhase {
	if b.fails || b.exitCode != 0 {
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// endCode is the exit code of the containers of a pod that fails or exits.
func (b behaviour) endCode() int32 {
	if b.fails {
		return 1
	}
	return b.exitCode
}

func parseEnd(value string) (End, error) {
	end := End(value)
	if end != Refuse && end != Silent {
		return "", fmt.Errorf("%q is neither %q nor %q", value, Refuse, Silent)
	}
	return end, nil
}

func parsePorts(value string) ([]int32, error) {
	var ports []int32
	for field := range strings.SplitSeq(value, ",") {
		port, err := strconv.ParseUint(strings.TrimSpace(field), 10, 16)
		if err != nil {
			return nil, err
		}
		ports = append(ports, int32(port))
	}
	return ports, nil
}
