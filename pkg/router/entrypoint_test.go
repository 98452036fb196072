package router

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

func points(paths ...string) []session.EntryPoint {
	var all []session.EntryPoint
	for _, p := range paths {
		all = append(all, session.EntryPoint{Path: p})
	}
	return all
}

func TestTheLongestMatchingPrefixPicksTheEntryPoint(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		points     []session.EntryPoint
		path, want string
	}{
		"below the prefix":                  {points("/api", "/"), "/api/x", "/api"},
		"the prefix itself":                 {points("/api", "/"), "/api", "/api"},
		"not on a segment border":           {points("/api", "/"), "/apix", "/"},
		"the root":                          {points("/api", "/"), "/", "/"},
		"the order does not matter":         {points("/", "/api", "/api/v1"), "/api/v1/x", "/api/v1"},
		"none matches: the first":           {points("/b", "/a"), "/c", "/b"},
		"a prefix with a slash at its end":  {points("/", "/api/"), "/api/x", "/api/"},
		"a prefix without one at its start": {points("/", "api"), "/api/x", "api"},
		"an empty prefix":                   {points("/api", ""), "/x", ""},
		"an escaped letter":                 {points("/", "/api"), "/%61pi/x", "/api"},
		"an escaped slash is no border":     {points("/", "/api"), "/api%2Fx", "/"},
		"equal prefixes: the first":         {points("/", ""), "/x", "/"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got, ok := chooseEntryPoint(c.points, c.path)
			require.True(t, ok)
			assert.Equal(t, c.want, got.Path)
		})
	}
}

func TestWithoutEntryPointsThereIsNoChoice(t *testing.T) {
	t.Parallel()
	_, ok := chooseEntryPoint(nil, "/")
	assert.False(t, ok)
}

func TestCheckEndpoint(t *testing.T) {
	t.Parallel()
	for endpoint, ok := range map[string]bool{
		"10.0.0.7:8080": true, "[fd00::7]:8080": true, "192.168.1.1:1": true, "8.8.8.8:65535": true,
		"127.0.0.1:8080": false, "[::1]:8080": false, "[::ffff:127.0.0.1]:8080": false, "127.10.0.3:80": false,
		"169.254.169.254:80": false, "[fe80::1]:80": false, "[fe80::1%eth0]:80": false, "[fd00::7%eth0]:80": false,
		"0.0.0.0:80": false, "[::]:80": false, "224.0.0.1:80": false, "[ff02::1]:80": false, "255.255.255.255:80": false,
		"10.0.0.7": false, "10.0.0.7:0": false, "10.0.0.7:65536": false, "10.0.0.7:http": false, "example.test:80": false,
		"http://10.0.0.7:80": false, "10.0.0.7:80/x": false, "user@10.0.0.7:80": false, "fd00::7:8080": false, "": false,
		"010.0.0.7:80": false,
	} {
		err := checkEndpoint(endpoint, false)
		if ok {
			require.NoError(t, err, endpoint)
		} else {
			require.ErrorIs(t, err, errBadEndpoint, endpoint)
		}
	}
}

func TestOnlyLoopbackIsAllowedByTheFlag(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"127.0.0.1:8080", "[::1]:8080", "127.10.0.3:80"} {
		require.NoError(t, checkEndpoint(endpoint, true), endpoint)
	}
	for _, endpoint := range []string{"169.254.169.254:80", "0.0.0.0:80", "224.0.0.1:80", "localhost:80"} {
		require.ErrorIs(t, checkEndpoint(endpoint, true), errBadEndpoint, endpoint)
	}
}

func FuzzEntryPointMatching(f *testing.F) {
	f.Add("/api", "/", "/api/x")
	f.Add("/%61", "a//", "/%2F%")
	f.Fuzz(func(t *testing.T, one, two, path string) {
		got, ok := chooseEntryPoint(points(one, two), path)
		require.True(t, ok)
		require.Contains(t, []string{one, two}, got.Path)
		// Whatever was chosen over a root that matches is a prefix.
		if strings.Trim(one, "/") == "" && strings.HasPrefix(path, "/") && got.Path != one {
			require.True(t, strings.HasPrefix(decodeSegments(path), "/"+strings.Trim(two, "/")))
		}
	})
}
