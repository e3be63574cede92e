package sasl_test

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/sasl"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// users are the users of a server that requires SASL. The second password has each character that
// the mechanism or the JAAS file escapes.
var users = map[string]string{"bob": "secret", "zoë": `a "quoted", back\slashed=pässword:`}

// jaas is the file that has the users for ZooKeeper.
func jaas(all map[string]string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	b.WriteString("Server {\n\torg.apache.zookeeper.server.auth.DigestLoginModule required")
	for user, password := range all {
		b.WriteString("\n\t\"user_" + user + `"="` + quoted.Replace(password) + `"`)
	}
	b.WriteString(";\n};\n")
	return b.String()
}

// TestDigestMD5WhereItIsRequired is one test for zktest and for a real server.
func TestDigestMD5WhereItIsRequired(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		server := zktest.NewServer(t, zktest.WithSASL(users), zktest.WithProperties(map[string]string{"sessionRequireClientSASLAuth": "true"}))
		testDigestMD5(t, server.Servers(), server.CutConnections)
	})
	t.Run("a real server", func(t *testing.T) {
		e := ensemble.New(t, ensemble.WithServers(1), ensemble.WithFile("/jaas.conf", jaas(users)),
			ensemble.WithEnv("JVMFLAGS", "-Djava.security.auth.login.config=/jaas.conf -Dzookeeper.fips-mode=false -Dfile.encoding=UTF-8 "+
				"-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider "+
				"-Dzookeeper.sessionRequireClientSASLAuth=true"))
		testDigestMD5(t, e.Servers(), func() { require.NoError(t, e.CutConnections(0)) })
	})
}

func testDigestMD5(t *testing.T, servers []string, cut func()) {
	connect := func(t *testing.T, opts ...framework.Option) *framework.Client {
		return testbed.NewClient(t, servers, opts...)
	}
	login := func(user, password string) framework.Option {
		return framework.WithSASL(sasl.DigestMD5(user, password))
	}
	for user, password := range users {
		t.Run(user+" logs in", func(t *testing.T) {
			who, err := admin.WhoAmI(testbed.Context(t), connect(t, login(user, password)))
			require.NoError(t, err)
			require.Contains(t, who, admin.Identity{Scheme: "sasl", User: user})
		})
	}
	t.Run("a node is for its user, on each connection", func(t *testing.T) {
		bob := connect(t, login("bob", users["bob"]))
		for path, user := range map[string]string{"/bob's": "bob", "/zoë's": "zoë"} {
			testbed.Create(t, bob, path, nil, framework.ACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: user}}))
		}
		session := testbed.Session(t, bob)
		for range 3 {
			testbed.Get(t, bob, "/bob's")
			_, _, err := bob.Get(testbed.Context(t), "/zoë's")
			require.ErrorIs(t, err, zk.ErrNoAuth)
			cut()
		}
		testbed.Get(t, connect(t, login("zoë", users["zoë"])), "/zoë's")
		require.NoError(t, session.Err(), "the session goes on")
	})
	// The password belongs to no user: ZooKeeper 3.8.0 accepts the password of the previous login,
	// for a user that it does not have.
	for name, mechanism := range map[string]sasl.Mechanism{
		"a wrong password": sasl.DigestMD5("bob", "wrong"), "no such user": sasl.DigestMD5("eve", "another secret"),
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			err := connect(t, framework.WithSASL(mechanism)).WaitConnected(testbed.Context(t))
			require.ErrorIs(t, err, zk.ErrAuthFailed)
			require.ErrorContains(t, err, "SASL DIGEST-MD5: ")
			require.NotContains(t, err.Error(), "secret")
		})
	}
	t.Run("who does not log in is refused", func(t *testing.T) {
		_, _, err := connect(t).Get(testbed.Context(t), "/")
		require.ErrorIs(t, err, framework.ErrAuthRequired)
	})
}
