package auth

import (
	"crypto/x509"
	"fmt"
)

// Service accounts whose SPIFFE ids are known to the two programs.
const (
	ServiceAccountRouter          = "router"
	ServiceAccountWorkloadManager = "workload-manager"
)

// SPIFFEID is spiffe://<trust domain>/ns/<namespace>/sa/<service account>, or
// empty, which checks nothing, without a trust domain.
func SPIFFEID(trustDomain, namespace, serviceAccount string) string {
	if trustDomain == "" {
		return ""
	}
	return "spiffe://" + trustDomain + "/ns/" + namespace + "/sa/" + serviceAccount
}

// checkSPIFFE requires the certificate to bear exactly the wanted id. An
// X.509-SVID has exactly one URI (SPIFFE X.509-SVID specification, section 2).
func checkSPIFFE(cert *x509.Certificate, want string) error {
	if len(cert.URIs) != 1 || cert.URIs[0].String() != want {
		return fmt.Errorf("peer certificate is for %v, not %s", cert.URIs, want)
	}
	return nil
}
