package framework_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// pemFiles are the files of a client, and the configuration of a server that accepts it.
type pemFiles struct {
	cert, key string
	conf      atomic.Pointer[tls.Config]
}

// renew writes a new certificate, which is its own authority, and which the server also has.
func (f *pemFiles) renew(t *testing.T) {
	t.Helper()
	certificate, pool := selfSigned(t)
	f.conf.Store(&tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	key := testbed.Must(x509.MarshalPKCS8PrivateKey(certificate.PrivateKey))
	for name, block := range map[string]*pem.Block{
		f.cert: {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}, f.key: {Type: "PRIVATE KEY", Bytes: key},
	} {
		require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
}

func TestTLSFilesAreReadAgainForEachConnection(t *testing.T) {
	dir := t.TempDir()
	files := &pemFiles{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	files.renew(t)
	server := zktest.NewServer(t)
	secure, err := server.Listen("127.0.0.1:0", &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return files.conf.Load(), nil
	}})
	require.NoError(t, err)
	var log logged
	client := testbed.NewClient(t, []string{secure.Addr()}, framework.WithTLSFiles(files.cert, files.cert, files.key), log.keep(slog.LevelInfo))
	ctx := testbed.Context(t)
	session := testbed.Session(t, client)
	use := func(when string) {
		t.Helper()
		server.CutConnections()
		require.NoError(t, testbed.Err(client.Get(ctx, "/")), when)
		require.NoError(t, session.Err(), when)
	}
	use("the same files")
	files.renew(t)
	use("new files")
	require.NoError(t, os.WriteFile(files.cert, []byte("half"), 0o600))
	use("a file that is being written")
	require.NoError(t, client.Close())
	require.NotEmpty(t, log.lines("TLS files cannot be used"))
}

func TestBadTLSFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	files := &pemFiles{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	files.renew(t)
	other := &pemFiles{cert: filepath.Join(dir, "other.pem"), key: filepath.Join(dir, "otherkey.pem")}
	other.renew(t)
	for name, opt := range map[string]framework.Option{
		"no such file":       framework.WithTLSFiles(filepath.Join(dir, "none"), "", ""),
		"no certificate":     framework.WithTLSFiles(files.key, "", ""),
		"no key":             framework.WithTLSFiles("", files.cert, ""),
		"the key of another": framework.WithTLSFiles(files.cert, files.cert, other.key),
		"a key and no more":  framework.WithTLSFiles("", "", files.key),
		"no key in the file": framework.WithTLSFiles("", files.cert, files.cert),
	} {
		require.ErrorIs(t, testbed.Err(framework.New([]string{"a:1"}, opt)), framework.ErrBadArgument, name)
	}
}
