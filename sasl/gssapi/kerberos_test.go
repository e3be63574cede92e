package gssapi

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/sasl"
)

// realm is a KDC and a ZooKeeper that serves only who has logged in there, each in a container.
type realm struct {
	kdc     string // container
	address string // of ZooKeeper
	config  string // krb5.conf for this machine
	dir     string // with that, alice.keytab, brief.keytab, and alice.cache of kinit
}

// kinds of keys that a ticket may have.
var kinds = []string{"aes128-cts-hmac-sha1-96", "aes256-cts-hmac-sha1-96"}

const (
	kdcImage     = "curator-kdc:debian" // from scripts/kdc-image.sh
	startTimeout = 20 * time.Minute

	briefLife = 5 * time.Second // of the tickets of the user brief

	// skew is how long after their end the server still accepts tickets.
	skew = 10 * time.Second
)

// startRealm starts both, or skips the test where there is no Docker. zoo.test is the host of the
// server's principal. There is no such host: the client reaches it at 127.0.0.1. other.test has a
// principal too, whose key the server does not have.
func startRealm(t *testing.T) *realm {
	t.Helper()
	if os.Getenv("CURATOR_TEST_DOCKER") != "1" {
		t.Skip("LEFT OUT, needs Docker: `make test` runs it, with a KDC and a ZooKeeper (CURATOR_TEST_DOCKER=1)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	r := &realm{dir: t.TempDir()}
	r.kdc = run(ctx, t, kdcImage, "88/tcp", nil, "sh", "-c", kdcScript)
	port := published(ctx, t, r.kdc, "88/tcp")
	r.config = r.write(t, "krb5.conf", krb5conf(port, 5*time.Minute))
	for _, kind := range kinds {
		r.write(t, kind+".conf", krb5conf(port, 5*time.Minute, "default_tgs_enctypes = "+kind))
	}
	require.Eventually(t, func() bool {
		return docker(ctx, "exec", r.kdc, "kinit", "-c", "/tmp/alice.cache", "-k", "-t", "/tmp/alice.keytab", "alice") == nil
	}, startTimeout, 100*time.Millisecond, "the KDC")

	server := filepath.Join(r.dir, "kerberos")
	require.NoError(t, os.Mkdir(server, 0o755))
	for from, to := range map[string]string{
		"alice.keytab": r.dir, "brief.keytab": r.dir, "alice.cache": r.dir, "zookeeper.keytab": server,
	} {
		require.NoError(t, docker(ctx, "cp", r.kdc+":/tmp/"+from, to))
	}
	// the official image runs as another user
	require.NoError(t, os.Chmod(filepath.Join(server, "zookeeper.keytab"), 0o644))
	// the server asks no KDC
	r.write(t, "kerberos/krb5.conf", krb5conf("127.0.0.1:1", skew))
	r.write(t, "kerberos/jaas.conf", jaas)
	image := os.Getenv("ZOOKEEPER_IMAGE")
	if image == "" {
		image = "curator-zookeeper:debian"
	}
	r.address = published(ctx, t, run(ctx, t, image, "2181/tcp", map[string]string{server: "/"}), "2181/tcp")
	anybody, err := framework.New([]string{r.address})
	require.NoError(t, err)
	defer anybody.Close()
	require.NoError(t, anybody.WaitConnected(ctx), "the server grants sessions, and refuses requests")
	return r
}

// write puts a file into the directory, and returns its path.
func (r *realm) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// options returns the options of a mechanism in this realm.
func (r *realm) options(more ...Option) []Option {
	return append([]Option{WithConfig(r.config), WithHost(named("zoo.test"))}, more...)
}

func (r *realm) keytab(user string) string { return filepath.Join(r.dir, user+".keytab") }

func (r *realm) alice(more ...Option) sasl.Mechanism {
	return Keytab("alice@EXAMPLE.COM", r.keytab("alice"), r.options(more...)...)
}

func (r *realm) bob() sasl.Mechanism {
	return Password("bob@EXAMPLE.COM", "open sesame", r.options()...)
}

// client is connected. It logs in by mechanism.
func (r *realm) client(t *testing.T, mechanism sasl.Mechanism, opts ...framework.Option) *framework.Client {
	t.Helper()
	client := r.connect(t, mechanism, opts...)
	require.NoError(t, client.WaitConnected(testbed.Context(t)))
	return client
}

// connect returns a client that might not be connected yet.
func (r *realm) connect(t *testing.T, mechanism sasl.Mechanism, opts ...framework.Option) *framework.Client {
	t.Helper()
	return testbed.NewClient(t, []string{r.address}, append([]framework.Option{framework.WithSASL(mechanism)}, opts...)...)
}

// cutter is a dialer that can close its last connection.
type cutter struct{ last atomic.Pointer[net.Conn] }

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.last.Store(&nc)
	}
	return nc, err
}

func (c *cutter) cut(t *testing.T) {
	t.Helper()
	require.NoError(t, (*c.last.Load()).Close())
}

// run starts a container whose port is published on this machine, with copies of directories, and
// removes it at the end.
func run(ctx context.Context, t *testing.T, image, port string, copies map[string]string, command ...string) (container string) {
	t.Helper()
	host, _ := os.Hostname() // empty is a name too
	args := append([]string{"create", "-p", "127.0.0.1::" + port,
		// ensemble.Sweep removes what a killed process left
		"--label", fmt.Sprintf("io.gocurator.owner=%s:%d", host, os.Getpid()),
		"-e", "JVMFLAGS=" + jvmFlags, image}, command...)
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	require.NoError(t, err, "docker create %s (scripts/kdc-image.sh and scripts/zookeeper-image.sh build the images)", image)
	container = strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = docker(context.Background(), "rm", "-f", "-v", container) })
	for from, to := range copies {
		require.NoError(t, docker(ctx, "cp", from, container+":"+to))
	}
	require.NoError(t, docker(ctx, "start", container))
	return container
}

// published is where a container's port is on this machine.
func published(ctx context.Context, t *testing.T, container, port string) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, "docker", "port", container, port).Output()
	require.NoError(t, err)
	address, _, _ := strings.Cut(string(out), "\n")
	return address
}

func docker(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("docker %s: %w: %s", args[0], err, out)
	}
	return nil
}

// krb5conf has one realm. TCP only, since a container's port of UDP would be another one.
func krb5conf(kdc string, skew time.Duration, defaults ...string) string {
	return fmt.Sprintf(`[libdefaults]
	%s
	default_realm = EXAMPLE.COM
	udp_preference_limit = 1
	clockskew = %d
[realms]
	EXAMPLE.COM = {
		kdc = %s
	}
`, strings.Join(defaults, "\n"), int(skew.Seconds()), kdc)
}

var kdcScript = `set -e
cat >/etc/krb5.conf <<'END'
` + krb5conf("127.0.0.1", 5*time.Minute) + `
END
mkdir -p /etc/krb5kdc /var/lib/krb5kdc
cat >/etc/krb5kdc/kdc.conf <<'END'
[realms]
	EXAMPLE.COM = {
		max_life = 10h
	}
END
kdb5_util create -s -r EXAMPLE.COM -P master
kadmin.local addprinc -randkey +requires_preauth alice
kadmin.local addprinc -pw 'open sesame' +requires_preauth bob
kadmin.local addprinc -randkey -maxlife '` + fmt.Sprint(int(briefLife.Seconds())) + ` seconds' brief
kadmin.local addprinc -randkey zookeeper/zoo.test
kadmin.local addprinc -randkey zookeeper/other.test
kadmin.local ktadd -k /tmp/alice.keytab alice
kadmin.local ktadd -k /tmp/brief.keytab brief
kadmin.local ktadd -k /tmp/zookeeper.keytab zookeeper/zoo.test
exec krb5kdc -n
`

const jaas = `Server {
	com.sun.security.auth.module.Krb5LoginModule required
	useKeyTab=true storeKey=true useTicketCache=false isInitiator=false
	keyTab="/kerberos/zookeeper.keytab" principal="zookeeper/zoo.test@EXAMPLE.COM";
};
`

const jvmFlags = "-Djava.security.auth.login.config=/kerberos/jaas.conf -Djava.security.krb5.conf=/kerberos/krb5.conf " +
	"-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider -Dzookeeper.sessionRequireClientSASLAuth=true"
