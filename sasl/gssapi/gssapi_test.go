package gssapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/sasl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOnARealServer has one KDC and one ZooKeeper for all its parts. The last one stops the KDC.
func TestOnARealServer(t *testing.T) {
	r := startRealm(t)
	t.Run("with the KDC", func(t *testing.T) {
		testLogins(t, r)
		testRefusals(t, r)
		t.Run("a node is for its principal", func(t *testing.T) { t.Parallel(); testAccess(t, r) })
		t.Run("a mutex is acquired and released", func(t *testing.T) { t.Parallel(); testMutex(t, r) })
		t.Run("a connection after the ticket's end has a new ticket", func(t *testing.T) { t.Parallel(); testExpiry(t, r) })
	})
	t.Run("without the KDC", func(t *testing.T) { testWithoutKDC(t, r) })
}

func testLogins(t *testing.T, r *realm) {
	type login struct {
		mechanism sasl.Mechanism
		user      string
		inside    *mechanism // of mechanism; nil: its ticket is not checked
	}
	logins := map[string]login{
		"keytab":                       {r.alice(), "alice@EXAMPLE.COM", nil},
		"keytab of the default realm":  {Keytab("alice", r.keytab("alice"), r.options()...), "alice@EXAMPLE.COM", nil},
		"password":                     {r.bob(), "bob@EXAMPLE.COM", nil},
		"credentials cache":            {CredentialsCache(filepath.Join(r.dir, "alice.cache"), r.options()...), "alice@EXAMPLE.COM", nil},
		"credentials cache as of MIT":  {CredentialsCache("FILE:"+filepath.Join(r.dir, "alice.cache"), r.options()...), "alice@EXAMPLE.COM", nil},
		"host in capitals, with a dot": {r.alice(WithHost(named("ZOO.test."))), "alice@EXAMPLE.COM", nil},
	}
	for _, kind := range kinds {
		m := build("alice", withKeytab("alice", r.keytab("alice")), r.options(WithConfig(filepath.Join(r.dir, kind+".conf"))))
		logins[kind] = login{m.mechanism(), "alice@EXAMPLE.COM", m}
	}
	for name, test := range logins {
		t.Run("logs in with "+name, func(t *testing.T) {
			t.Parallel()
			who, err := admin.WhoAmI(testbed.Context(t), r.client(t, test.mechanism))
			require.NoError(t, err)
			require.Contains(t, who, admin.Identity{Scheme: "sasl", User: test.user})
			if test.inside != nil {
				require.Equal(t, etypeID.EtypeSupported(name), ticketOf(test.inside).key.KeyType)
			}
		})
	}
}

func testRefusals(t *testing.T, r *realm) {
	for name, test := range map[string]struct {
		mechanism sasl.Mechanism
		text      string
	}{
		"a wrong password":           {Password("bob@EXAMPLE.COM", "secret", r.options()...), "KDC_ERR_PREAUTH_FAILED"},
		"no such user":               {Password("eve@EXAMPLE.COM", "secret", r.options()...), "KDC_ERR_C_PRINCIPAL_UNKNOWN"},
		"a keytab of another":        {Keytab("bob@EXAMPLE.COM", r.keytab("alice"), r.options()...), "key not found in keytab"},
		"no such server":             {r.alice(WithHost(nil)), "zookeeper/127.0.0.1: the KDC refused the request"},
		"no such service":            {r.alice(WithService("kafka")), "kafka/zoo.test: the KDC refused the request"},
		"a key that the server lost": {r.alice(WithHost(named("other.test"))), "SASL GSSAPI: "},
		"a password of DIGEST-MD5":   {sasl.DigestMD5("bob", "secret"), "SASL DIGEST-MD5: "},
	} {
		t.Run("is refused with "+name, func(t *testing.T) {
			t.Parallel()
			err := r.connect(t, test.mechanism).WaitConnected(testbed.Context(t))
			require.ErrorIs(t, err, zk.ErrAuthFailed)
			require.ErrorContains(t, err, test.text)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func testAccess(t *testing.T, r *realm) {
	owner := r.client(t, r.alice())
	testbed.Create(t, owner, "/private", []byte("x"), framework.ACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "alice@EXAMPLE.COM"}}))
	require.Equal(t, "x", testbed.Get(t, owner, "/private"))
	require.ErrorIs(t, testbed.Err(r.client(t, r.bob()).Get(testbed.Context(t), "/private")), zk.ErrNoAuth)
}

func testMutex(t *testing.T, r *realm) {
	m := testbed.Must(mutex.New(r.client(t, r.alice()), "/lock"))
	for range 3 {
		require.NoError(t, testbed.Acquire(t, m).Release())
	}
}

// testExpiry waits until the server would refuse the first ticket.
func testExpiry(t *testing.T, r *realm) {
	var c cutter
	inside := build("brief", withKeytab("brief", r.keytab("brief")), r.options())
	client := r.client(t, inside.mechanism(), framework.WithDialer(c.dial))
	first := ticketOf(inside)
	require.WithinDuration(t, time.Now().Add(briefLife), first.end, time.Minute)
	testbed.Eventually(t, func() bool { return time.Now().After(first.end.Add(skew)) }, "the end of the ticket")
	session := testbed.Session(t, client)
	c.cut(t)
	who, err := admin.WhoAmI(testbed.Context(t), client)
	require.NoError(t, err)
	require.Contains(t, who, admin.Identity{Scheme: "sasl", User: "brief@EXAMPLE.COM"})
	require.NoError(t, session.Err())
	require.NotSame(t, first, ticketOf(inside))
}

func testWithoutKDC(t *testing.T, r *realm) {
	var c cutter
	client := r.client(t, r.alice(), framework.WithDialer(c.dial))
	session := testbed.Session(t, client)
	require.NoError(t, docker(testbed.Context(t), "kill", r.kdc))
	for range 3 {
		c.cut(t)
		testbed.Get(t, client, "/") // the ticket is good
	}
	require.NoError(t, session.Err())

	other := r.connect(t, r.bob(), framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.NTimes(1, time.Millisecond)))
	err := testbed.Err(other.Get(testbed.Context(t), "/"))
	require.ErrorIs(t, err, zk.ErrNoServer)
	require.NotErrorIs(t, err, zk.ErrAuthFailed)
	require.ErrorContains(t, err, "ticket of bob@EXAMPLE.COM for zookeeper/zoo.test")
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	conf := WithConfig(file("krb5.conf", krb5conf("127.0.0.1:1", time.Minute)))
	for name, test := range map[string]struct {
		mechanism sasl.Mechanism
		text      string
	}{
		"no krb5.conf":      {Password("bob", "secret", WithConfig("/no/such.conf")), "/no/such.conf"},
		"a bad krb5.conf":   {Password("bob", "secret", WithConfig(file("bad.conf", "[libdefaults]\n?\n"))), "bad.conf"},
		"no keytab":         {Keytab("bob", "/no/such.keytab", conf), "keytab /no/such.keytab"},
		"an empty keytab":   {Keytab("bob", file("empty", ""), conf), "keytab "},
		"a broken keytab":   {Keytab("bob", file("broken", "\x05\x02\x00\x00\x00\x50\x00\x01"), conf), "keytab "},
		"no cache":          {CredentialsCache("/no/such.cache", conf), "credentials cache /no/such.cache"},
		"an empty cache":    {CredentialsCache(file("cache", ""), conf), "/cache for zookeeper/host: bad message or file"},
		"a broken cache":    {CredentialsCache(file("cut", "\x05\x04\x00\x0c\x00\x01"), conf), "credentials cache "},
		"no such host name": {Password("bob", "secret", conf, WithHost(func(context.Context, string) (string, error) { return "", errors.New("not in DNS") })), "not in DNS"},
	} {
		t.Run(name, func(t *testing.T) {
			exchange, err := test.mechanism.Start(testbed.Context(t), sasl.Server{Host: "host"})
			require.ErrorContains(t, err, test.text)
			require.NotErrorIs(t, err, zk.ErrNoServer)
			require.NotContains(t, err.Error(), "secret")
			require.Zero(t, exchange)
		})
	}
	_, err := Password("bob", "secret", conf).Start(testbed.Context(t), sasl.Server{Host: "host"})
	require.ErrorIs(t, err, zk.ErrNoServer, "no KDC is at that port")
}

func TestAPasswordIsNotInLogs(t *testing.T) {
	m := Password("bob", "open sesame")
	for _, verb := range []string{"%v", "%+v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, m), "sesame")
	}
}

// ticketOf returns the ticket for the server.
func ticketOf(m *mechanism) *ticket {
	s := &m.tickets
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entry("zookeeper", "zoo.test").ticket
}

func named(host string) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) { return host, nil }
}
