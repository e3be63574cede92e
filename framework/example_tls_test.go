package framework_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// The servers have certificates of a private authority.
func ExampleWithTLS() {
	certificate, authority, err := localCertificate()
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := zktest.Start() // instead of a real ensemble with a secureClientPort
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	secure, err := server.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		fmt.Println(err)
		return
	}

	client, err := framework.New([]string{secure.Addr()}, framework.WithTLS(&tls.Config{RootCAs: authority}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	path, err := client.Create(ctx, "/secret", nil)
	fmt.Println(path, err)
	// Output:
	// /secret <nil>
}

// localCertificate returns a certificate for 127.0.0.1, and the pool that trusts it.
func localCertificate() (tls.Certificate, *x509.CertPool, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pool, nil
}
