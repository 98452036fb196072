package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"k8s.io/utils/clock"
)

// TLSFiles are paths of PEM files. They are read again while in use, so that
// a renewed certificate needs no restart.
type TLSFiles struct {
	// Cert and Key are our own; a client may have none.
	Cert, Key string
	// CA vouches for the peer. For a server, empty: clients need no
	// certificate. For a client, empty: the system's authorities.
	CA string
}

// ServerTLS serves with the certificate. With a CA every client must have a
// certificate of it, and with a peerID also that SPIFFE id.
func ServerTLS(clk clock.PassiveClock, files TLSFiles, peerID string, log *zap.Logger) (*tls.Config, error) {
	if files.Cert == "" || files.Key == "" {
		return nil, errors.New("a server needs a certificate and its key")
	}
	if peerID != "" && files.CA == "" {
		return nil, errors.New("checking the client's SPIFFE id needs a CA")
	}
	source, err := newTLSSource(clk, files, log)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return source.get().cert, nil
		},
	}
	if files.CA != "" {
		config.MinVersion = tls.VersionTLS13
		// ClientCAs cannot change under a running server, so the chain is
		// verified below, against the authorities of the moment.
		config.ClientAuth = tls.RequireAnyClientCert
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return verifyPeer(state, peerID, x509.VerifyOptions{
				Roots: source.get().roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			})
		}
	}
	return config, nil
}

// ClientTLS speaks to the server of the given name: the host of its URL,
// without port. With a peerID that SPIFFE id is checked instead of the name,
// since workload certificates need not bear one.
func ClientTLS(clk clock.PassiveClock, files TLSFiles, serverName, peerID string, log *zap.Logger) (*tls.Config, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("a certificate and its key go together")
	}
	if serverName == "" {
		return nil, errors.New("the server's name is needed to verify it")
	}
	source, err := newTLSSource(clk, files, log)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: serverName,
		// RootCAs cannot change under a running client. VerifyConnection does
		// the whole verification, against the authorities of the moment.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			options := x509.VerifyOptions{
				Roots: source.get().roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			}
			if peerID == "" {
				// Not state.ServerName: it is empty for an IP address, which
				// would leave the name unchecked.
				options.DNSName = serverName
			}
			return verifyPeer(state, peerID, options)
		},
	}
	if files.Cert != "" {
		config.MinVersion = tls.VersionTLS13
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return source.get().cert, nil
		}
	}
	return config, nil
}

func verifyPeer(state tls.ConnectionState, peerID string, options x509.VerifyOptions) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("peer sent no certificate")
	}
	options.Intermediates = x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(cert)
	}
	leaf := state.PeerCertificates[0]
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("verifying peer certificate: %w", err)
	}
	if peerID == "" {
		return nil
	}
	return checkSPIFFE(leaf, peerID)
}
