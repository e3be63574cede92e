package framework

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// tlsFiles are PEM files and their contents when they were last read. Only the goroutine that
// connects uses it.
type tlsFiles struct {
	ca, cert, key string // empty: none
	roots         *x509.CertPool
	pairs         []tls.Certificate
}

// read reads the files. If it fails, nothing is changed.
func (f *tlsFiles) read() error {
	var roots *x509.CertPool
	var pairs []tls.Certificate
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return err
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s contains no certificate", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("%s and %s: %w", f.cert, f.key, err)
		}
		pairs = []tls.Certificate{pair}
	}
	f.roots, f.pairs = roots, pairs
	return nil
}
