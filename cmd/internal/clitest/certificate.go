// Package clitest has what the tests of several programs need.
package clitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Certificate is a self-signed certificate with its key, and the files that have them.
type Certificate struct {
	tls.Certificate
	CertFile, KeyFile string
	Pool              *x509.CertPool // has only this certificate
}

// NewCertificate creates a certificate of a host, given by its name or address.
func NewCertificate(t *testing.T, host string) *Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	c := &Certificate{
		tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool(),
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(c.CertFile, certPEM, 0o600))
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	require.NoError(t, os.WriteFile(c.KeyFile, keyPEM, 0o600))
	require.True(t, c.Pool.AppendCertsFromPEM(certPEM))
	return c
}
