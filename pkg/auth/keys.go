package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// keyBits is the size of a key made here, and the least that is accepted.
const keyBits = 2048

// keyIDLength is how many hexadecimal digits of the fingerprint name a key.
const keyIDLength = 16

// Entries of the Secret.
const (
	entryPrivate = "private.pem" // PKCS#1
	entryPublic  = "public.pem"  // PKIX
)

// publicKey is what a sandbox and the workload-manager need to check tokens.
type publicKey struct {
	key *rsa.PublicKey
	pem string // as it stands in the Secret
	id  string
}

// signingKey is a whole key pair.
type signingKey struct {
	key *rsa.PrivateKey
	id  string
}

// fingerprint names a key by its public half.
func fingerprint(key *rsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])[:keyIDLength], nil
}

// parsePublic reads public.pem out of the Secret's data.
func parsePublic(data map[string][]byte) (publicKey, error) {
	text, ok := data[entryPublic]
	if !ok {
		return publicKey{}, fmt.Errorf("entry %s is missing", entryPublic)
	}
	key, err := jwt.ParseRSAPublicKeyFromPEM(text)
	if err != nil {
		return publicKey{}, fmt.Errorf("reading %s: %w", entryPublic, err)
	}
	if key.N.BitLen() < keyBits {
		return publicKey{}, fmt.Errorf("%s has %d bits, fewer than %d", entryPublic, key.N.BitLen(), keyBits)
	}
	id, err := fingerprint(key)
	if err != nil {
		return publicKey{}, err
	}
	return publicKey{key: key, pem: string(text), id: id}, nil
}

// parsePair reads both halves and refuses two that do not belong together:
// every token would be refused by those who got the public half.
func parsePair(data map[string][]byte) (signingKey, error) {
	public, err := parsePublic(data)
	if err != nil {
		return signingKey{}, err
	}
	text, ok := data[entryPrivate]
	if !ok {
		return signingKey{}, fmt.Errorf("entry %s is missing", entryPrivate)
	}
	private, err := jwt.ParseRSAPrivateKeyFromPEM(text)
	if err != nil {
		return signingKey{}, fmt.Errorf("reading %s: %w", entryPrivate, err)
	}
	if !private.PublicKey.Equal(public.key) {
		return signingKey{}, errors.New(entryPublic + " is not the public half of " + entryPrivate)
	}
	return signingKey{key: private, id: public.id}, nil
}

// generatePair makes a new key, as the Secret holds it.
func generatePair() (map[string][]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("generating identity key: %w", err)
	}
	return encodePair(key)
}

func encodePair(key *rsa.PrivateKey) (map[string][]byte, error) {
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encoding public key: %w", err)
	}
	return map[string][]byte{
		entryPrivate: pem.EncodeToMemory(&pem.Block{
			Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
		}),
		entryPublic: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	}, nil
}
