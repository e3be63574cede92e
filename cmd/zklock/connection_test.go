//go:build unix

package main

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/cmd/internal/clitest"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

const (
	password = "billing:secret"
	// serverName is the name in the certificate of a secured server. Its address differs.
	serverName = "zk.test"
)

// secured is a server with TLS that requests certificates. Only billing has rights below /billing.
type secured struct {
	*zktest.Server
	*clitest.Certificate
	address string
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{Server: zktest.NewServer(t), Certificate: clitest.NewCertificate(t, serverName)}
	l, err := s.Listen("127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{s.Certificate.Certificate},
		ClientCAs:    s.Pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	require.NoError(t, err)
	s.address = l.Addr()
	client := testbed.On(s.Server).Client(t)
	testbed.Create(t, client, "/billing", nil, framework.As(framework.Container), framework.ACL(zk.DigestACL(zk.PermAll, "billing", "secret")))
	return s
}

// call runs zklock with the TLS of the server.
func (s *secured) call(t *testing.T, verb string, args ...string) (code int, stderr string) {
	t.Helper()
	flags := []string{"--tls", "--cacert", s.CertFile, "--cert", s.CertFile, "--key", s.KeyFile, "--tls-server-name", serverName}
	p := start(t, prepare(t, []string{s.address}, with(verb, flags, args...)...))
	return p.end(), p.err.String()
}

// acls returns the distinct ACL entries of all nodes below a path.
func acls(t *testing.T, server *zktest.Server, path string) []zk.ACL {
	t.Helper()
	seen := map[zk.ACL]bool{}
	var all []zk.ACL
	for _, n := range server.Dump() {
		for _, a := range n.ACL {
			if strings.HasPrefix(n.Path, path+"/") && !seen[a] {
				seen[a] = true
				all = append(all, a)
			}
		}
	}
	return all
}

// TestASecuredEnsemble: each command connects with credentials from any source, and fails without.
func TestASecuredEnsemble(t *testing.T) {
	s := newSecured(t)
	file := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(file, []byte("digest:other:x\n\ndigest:"+password+"\r\n"), 0o600))
	for _, auth := range []string{"digest:" + password, "@" + file} {
		for _, args := range [][]string{{"run", "/run", "true"}, {"elect", "/elect", "true"}, {"ls", "/run"}, {"revoke", "/run"}} {
			code, stderr := s.call(t, args[0], with("--auth", []string{auth, "/billing" + args[1]}, args[2:]...)...)
			require.Zero(t, code, stderr)
		}
	}
	code, stderr := s.call(t, "run", "/billing/lock", "true")
	assert.Equal(t, cli.ExitUnavailable, code)
	assert.Contains(t, stderr, zk.ErrNoAuth.Error())
	code, stderr = s.call(t, "run", "--auth", "digest:other:x", "--auth", "digest:"+password, "/billing/lock", "true")
	assert.Zero(t, code, "several are presented: %s", stderr)
	code, stderr = s.call(t, "run", "--auth", "kerberos:x", "/billing/lock", "true")
	assert.Equal(t, cli.ExitUnavailable, code)
	assert.Contains(t, stderr, `auth scheme "kerberos"`)
}

// TestAServerThatRequiresSASL: the server accepts a user with the right password only.
func TestAServerThatRequiresSASL(t *testing.T) {
	server := zktest.NewServer(t, zktest.WithSASL(map[string]string{"bob": "pass:word"}), zktest.WithProperties(map[string]string{"sessionRequireClientSASLAuth": "true"}))
	for auth, want := range map[string]int{"sasl:bob:pass:word": 0, "sasl:bob:wrong": cli.ExitUnavailable} {
		p := start(t, prepare(t, []string{server.Addr()}, "run", "--auth", auth, "--acl", "creator", "/billing/lock", "true"))
		assert.Equal(t, want, p.end(), "%s: %s", auth, p.err.String())
		assert.NotContains(t, p.err.String(), "word")
	}
	assert.Contains(t, acls(t, server, "/billing"), zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"})
}

// TestACertificateIsNeededAndChecked: client and server check each other's certificate.
func TestACertificateIsNeededAndChecked(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "no server answers"},
		{[]string{"--tls"}, "x509"},
		{[]string{"--tls", "--cacert", s.CertFile, "--cert", s.CertFile, "--key", s.KeyFile}, "127.0.0.1"},
		{[]string{"--tls", "--cacert", s.CertFile, "--tls-server-name", serverName}, "certificate required"},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			p := unavailable(t, s.address, 3*time.Second, with("ls", c.flags, "/billing/lock")...)
			assert.Contains(t, p.err.String(), c.want, c.flags)
		})
	}
}

// TestTheConnectionComesFromTheEnvironment: also a zklock that the command runs needs no flags.
func TestTheConnectionComesFromTheEnvironment(t *testing.T) {
	s := newSecured(t)
	p := program(t, []string{s.address}, "sh", "-c", `$ZKLOCK run /billing/lock -- sh -c '$ZKLOCK ls /billing/lock'`)
	p.Env = append(p.Env, "ZKLOCK_TLS=true", "ZKLOCK_CACERT="+s.CertFile, "ZKLOCK_CERT="+s.CertFile,
		"ZKLOCK_KEY="+s.KeyFile, "ZKLOCK_TLS_SERVER_NAME="+serverName, "ZKLOCK_AUTH=digest:"+password, "ZKLOCK_ACL=creator")
	require.Zero(t, start(t, p).end(), p.err.String())
	assert.Contains(t, p.out.String(), "/billing/lock: mutex\n")
	assert.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: zktest.Digest(password)}}, acls(t, s.Server, "/billing"))

	p = program(t, []string{s.address}, os.Args[0], "ls", "/billing/lock")
	p.Env = append(p.Env, "ZKLOCK_TLS=perhaps")
	assert.Equal(t, cli.ExitUsage, start(t, p).end())
	assert.Contains(t, p.err.String(), `ZKLOCK_TLS "perhaps"`)
}

// TestNodesHaveTheACL of --acl: the lock's and its parents.
func TestNodesHaveTheACL(t *testing.T) {
	server := zktest.NewServer(t)
	hash := zktest.Digest(password)
	for list, want := range map[string][]zk.ACL{
		"world:anyone:cdrwa": nil, // a dump leaves out the usual one
		"world:anyone:cdrw":  {{Perms: zk.PermAll &^ zk.PermAdmin, Scheme: "world", ID: "anyone"}},
		"creator":            {{Perms: zk.PermAll, Scheme: "digest", ID: hash}},
		"auth::crd":          {{Perms: zk.PermCreate | zk.PermRead | zk.PermDelete, Scheme: "digest", ID: hash}},
		"auth:whoever:cdrwa": {{Perms: zk.PermAll, Scheme: "digest", ID: hash}},
		"ip:127.0.0.1:cdrwa": {{Perms: zk.PermAll, Scheme: "ip", ID: "127.0.0.1"}},
		"ip:10.0.0.0/8:r,digest:" + hash + ":cdrwa": {{Perms: zk.PermRead, Scheme: "ip", ID: "10.0.0.0/8"}, {Perms: zk.PermAll, Scheme: "digest", ID: hash}},
	} {
		server.Flush()
		for _, verb := range []string{"run", "elect"} {
			succeeds(t, server, verb, "--auth", "digest:"+password, "--acl", list, "/jobs/"+verb, "true")
		}
		assert.Equal(t, want, acls(t, server, "/jobs"), list)
	}
}

// TestSecretsAreNotPrinted, also in the wrong argument.
func TestSecretsAreNotPrinted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(file, []byte("digest:secret\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, c := range []struct{ flag, value, want string }{
		{"--auth", "secret", "credentials must look like digest:user:password"},
		{"--auth", "digest:secret", "credentials must look like"},
		{"--auth", ":secret", "credentials must look like"},
		{"--auth", "digest:", "credentials must look like"},
		{"--auth", "sasl:bob", "credentials must look like"},
		{"--auth", "", "--auth is empty"},
		{"--auth", "@" + file, "--auth @" + file + ": credentials must look like"},
		{"--auth", "@" + empty, "no credentials"},
		{"--auth", "@/no/such/file", "/no/such/file"},
		{"--acl", "secret", "entry 1: must look like world:anyone:cdrwa"},
		{"--acl", "world:anyone:r,digest:billing:secret", "entry 2: the permissions"},
		{"--acl", "digest:billing:secret:r", "base64(SHA-1 of user:password)"},
		{"--acl", "world:everyone:r", "the only id of world is anyone"},
		{"--acl", "world:anyone:", "missing permissions"},
		{"--acl", "world:anyone:rx", "permissions"},
		{"--acl", "creator", "--acl: creator and auth require --auth or --cert"},
		{"--acl", "auth::r", "require --auth"},
		{"--cacert", file, "require --tls"},
		{"--tls-server-name", "x", "require --tls"},
		{"--tls --cacert", file, "contains no certificate"},
		{"--tls --cacert", "/no/such/file", "/no/such/file"},
		{"--tls --cert", file, "--cert and --key require each other"},
		{"--tls --key " + file + " --cert", file, "TLS files: " + file},
	} {
		args := with("run", strings.Fields(c.flag), c.value, "/lock", "true")
		var out, stderr bytes.Buffer
		assert.Equal(t, cli.ExitUsage, zklock(args, &out, &stderr), args)
		assert.Contains(t, stderr.String(), c.want, args)
		assert.NotContains(t, stderr.String(), "secret", args)
		assert.Empty(t, out.String())
	}
}
