package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestAnnotationsSayHowAPodBehaves(t *testing.T) {
	t.Parallel()
	defaults := Options{BootTime: time.Second, SilentFor: time.Minute, AtEnd: Refuse}
	plain := behaviour{bootTime: time.Second, silentFor: time.Minute, atEnd: Refuse}
	with := func(set func(*behaviour)) behaviour {
		b := plain
		set(&b)
		return b
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        behaviour
	}{
		"none means the node's defaults":      {nil, plain},
		"those of others are not looked at":   {map[string]string{"a.example/boot-time": "never"}, plain},
		"a boot time":                         {map[string]string{"node.agentcube.dev/boot-time": "2s"}, with(func(b *behaviour) { b.bootTime = 2 * time.Second })},
		"no boot time at all":                 {map[string]string{"node.agentcube.dev/boot-time": "0s"}, with(func(b *behaviour) { b.bootTime = 0 })},
		"a delay between Ready and listening": {map[string]string{"node.agentcube.dev/listen-delay": "2s"}, with(func(b *behaviour) { b.listenDelay = 2 * time.Second })},
		"never listening":                     {map[string]string{"node.agentcube.dev/never-listen": "true"}, with(func(b *behaviour) { b.neverListen = true })},
		"never ready":                         {map[string]string{"node.agentcube.dev/never-ready": "true"}, with(func(b *behaviour) { b.neverReady = true })},
		"a failure with its message":          {map[string]string{"node.agentcube.dev/fail": "out of memory"}, with(func(b *behaviour) { b.fails, b.failMessage = true, "out of memory" })},
		"an end with success":                 {map[string]string{"node.agentcube.dev/exit": "0"}, with(func(b *behaviour) { b.exits = true })},
		"an end with an exit code":            {map[string]string{"node.agentcube.dev/exit": "137"}, with(func(b *behaviour) { b.exits, b.exitCode = true, 137 })},
		"silence at the end":                  {map[string]string{"node.agentcube.dev/at-end": "silent", "node.agentcube.dev/silent-for": "30s"}, with(func(b *behaviour) { b.atEnd, b.silentFor = Silent, 30*time.Second })},
		"the same address for the next pod":   {map[string]string{"node.agentcube.dev/same-address": "true"}, with(func(b *behaviour) { b.sameAddress = true })},
		"ports with TLS":                      {map[string]string{"node.agentcube.dev/tls-ports": "8443, 9443"}, with(func(b *behaviour) { b.tlsPorts = []int32{8443, 9443} })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := behaviourOf(c.annotations, defaults)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAnAnnotationThatIsNotUnderstoodIsAnError(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		"node.agentcube.dev/boottime":     "2s",
		"node.agentcube.dev/boot-time":    "2",
		"node.agentcube.dev/never-listen": "maybe",
		"node.agentcube.dev/at-end":       "vanish",
		"node.agentcube.dev/exit":         "zero",
		"node.agentcube.dev/tls-ports":    "70000",
	} {
		_, err := behaviourOf(map[string]string{key: value}, Options{})
		assert.ErrorContains(t, err, key)
	}
}

func TestPortsAreThoseOfAllContainers(t *testing.T) {
	t.Parallel()
	named := func(name string, number int32, protocol corev1.Protocol) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: protocol}
	}
	for name, c := range map[string]struct {
		containers []corev1.Container
		secure     []int32
		want       []port
	}{
		"8080 when none is named":      {[]corev1.Container{{}}, nil, []port{{8080, false}}},
		"8080 with TLS when asked for": {[]corev1.Container{{}}, []int32{8080}, []port{{8080, true}}},
		"each once, over containers": {
			[]corev1.Container{
				{Ports: []corev1.ContainerPort{named("a", 1, ""), named("b", 2, corev1.ProtocolTCP)}},
				{Ports: []corev1.ContainerPort{named("c", 2, ""), named("d", 3, "")}},
			}, nil, []port{{1, false}, {2, false}, {3, false}},
		},
		"no UDP":                      {[]corev1.Container{{Ports: []corev1.ContainerPort{named("", 53, corev1.ProtocolUDP), named("", 80, "")}}}, nil, []port{{80, false}}},
		"one called https serves TLS": {[]corev1.Container{{Ports: []corev1.ContainerPort{named("https", 443, "")}}}, nil, []port{{443, true}}},
		"one by annotation too":       {[]corev1.Container{{Ports: []corev1.ContainerPort{named("x", 443, "")}}}, []int32{443}, []port{{443, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, portsOf(c.containers, c.secure))
		})
	}
}
