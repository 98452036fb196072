package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	nameAlphabet     = "abcdefghijklmnopqrstuvwxyz0123456789"
	nameSuffixLength = 8
	hashLength       = 8
)

// ObjectName makes the name of a session's object: the template's name, cut so
// that the whole stays a DNS label, a dash, and eight of [a-z0-9]. The random
// bytes come from random, or from crypto/rand when it is nil; an error is the
// reader's.
func ObjectName(template string, random io.Reader) (string, error) {
	if random == nil {
		random = rand.Reader
	}
	suffix, err := randomSuffix(random)
	if err != nil {
		return "", fmt.Errorf("naming an object of %q: %w", template, err)
	}
	return dnsLabel(template, validation.DNS1123LabelMaxLength-nameSuffixLength-1) + "-" + suffix, nil
}

func randomSuffix(random io.Reader) (string, error) {
	// Bytes past the last whole multiple of the alphabet are thrown away: with
	// them its first letters would come more often.
	const limit = 256 - 256%len(nameAlphabet)
	suffix := make([]byte, 0, nameSuffixLength)
	buffer := make([]byte, nameSuffixLength)
	for len(suffix) < nameSuffixLength {
		if _, err := io.ReadFull(random, buffer); err != nil {
			return "", err
		}
		for _, b := range buffer {
			if int(b) < limit && len(suffix) < nameSuffixLength {
				suffix = append(suffix, nameAlphabet[int(b)%len(nameAlphabet)])
			}
		}
	}
	return string(suffix), nil
}

// dnsLabel makes a DNS label of at most max characters out of a name, which
// may be a DNS subdomain: its dots become dashes.
func dnsLabel(name string, limit int) string {
	label := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, name)
	label = strings.Trim(label[:min(len(label), limit)], "-")
	if label == "" {
		return "sandbox"
	}
	return label
}

// WorkloadLabel is the value of LabelWorkloadName: the workload's name, or,
// since a name may have 253 characters and a label value 63, a cut name with a
// hash of the whole one.
func WorkloadLabel(name string) string {
	const limit = validation.LabelValueMaxLength
	if len(name) <= limit {
		return name
	}
	return name[:limit-hashLength-1] + "-" + hexHash(name)[:hashLength]
}

// OwnerHash is the value of LabelOwnerHash: the first 63 hex digits of the
// owner's SHA-256.
func OwnerHash(ownerID string) string {
	return hexHash(ownerID)[:validation.LabelValueMaxLength]
}

func hexHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
