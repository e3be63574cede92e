package framework

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// WithTLSFiles is [WithTLS] with PEM files, which are read again for each connection, so that certificates can be renewed while
// the client runs. ca has the authorities of the servers' certificates; if it is empty, the system's count. cert and key are the
// client's certificate and its key, or both empty. Other settings may come from WithTLS, given before or after it.
//
// Connections that exist stay as they are. If a file cannot be read, or cert and key do not belong together, as while they
// are being replaced, the client uses what it has read last, and logs that at Warn. [New] refuses such files with
// [ErrBadArgument].
func WithTLSFiles(ca, cert, key string) Option {
	return func(c *config) error {
		if (cert == "") != (key == "") {
			return fmt.Errorf("%w: TLS files: certificate and key go together", ErrBadArgument)
		}
		c.tlsFiles = &tlsFiles{ca: ca, cert: cert, key: key}
		if c.tls == nil {
			c.tls = new(tls.Config)
		}
		if err := c.tlsFiles.read(); err != nil {
			return fmt.Errorf("%w: TLS files: %w", ErrBadArgument, err)
		}
		return nil
	}
}

// tlsFiles are files in PEM, and what was read from them last. It belongs to the goroutine that connects.
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
			return fmt.Errorf("%s has no certificate", f.ca)
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

// tlsConfig is the configuration for a connection to host.
func (c *config) tlsConfig(host string) *tls.Config {
	conf := c.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName = host
	}
	if f := c.tlsFiles; f != nil {
		if err := f.read(); err != nil {
			c.Log.Warn("TLS files cannot be used, the last ones are", "reason", err)
		}
		if f.roots != nil {
			conf.RootCAs = f.roots
		}
		if f.pairs != nil {
			conf.Certificates = f.pairs
		}
	}
	return conf
}
