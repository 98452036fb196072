// Package pki makes the keys and certificates of the development cluster. They
// live as long as the cluster and protect nothing; they exist because the
// programs insist on TLS, and so that a probe can tell our server from another
// one on the same port.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime of every certificate, and how far back it is valid.
const (
	lifetime = 10 * 365 * 24 * time.Hour
	backdate = time.Hour
)

// Pair is a certificate and its key, both PEM.
type Pair struct{ Cert, Key []byte }

// CA signs certificates.
type CA struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes an authority of the given common name.
func NewCA(name string) (*CA, error) {
	template := newTemplate(name)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	pair, cert, key, err := sign(template, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making the authority %s: %w", name, err)
	}
	return &CA{Pair: pair, cert: cert, key: key}, nil
}

// Serving makes a server certificate for host names and IP addresses; the first
// is its common name.
func (ca *CA) Serving(hosts ...string) (Pair, error) {
	pair, _, _, err := sign(servingTemplate(hosts), ca.cert, ca.key)
	if err != nil {
		return Pair{}, fmt.Errorf("making a certificate for %v: %w", hosts, err)
	}
	return pair, nil
}

// SelfSigned makes a server certificate that no authority vouches for.
func SelfSigned(hosts ...string) (Pair, error) {
	pair, _, _, err := sign(servingTemplate(hosts), nil, nil)
	if err != nil {
		return Pair{}, fmt.Errorf("making a self-signed certificate for %v: %w", hosts, err)
	}
	return pair, nil
}

// Write stores the pair as NAME.crt and NAME.key in dir.
func (p Pair) Write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600)
}

func newTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-backdate),
		NotAfter:  time.Now().Add(lifetime),
	}
}

func servingTemplate(hosts []string) *x509.Certificate {
	template := newTemplate(hosts[0])
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return template
}

// sign makes a key and a certificate for it. Without a parent it signs itself.
func sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (Pair, *x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, nil, nil, err
	}
	if parent == nil {
		parent, signer = template, key
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, nil, nil, err
	}
	pair := Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}
	return pair, cert, key, nil
}
