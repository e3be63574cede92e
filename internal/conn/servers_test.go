package conn

import (
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
)

// connect begins or resumes a session at a real server.
func connect(t *testing.T, server string, hello Hello, answered func(Answer) error) *Conn {
	t.Helper()
	nc, err := net.Dial("tcp", server)
	require.NoError(t, err)
	hello.Timeout = 10 * time.Second
	c, err := Open(t.Context(), nc, hello)
	require.NoError(t, err)
	c.Start(Handlers{Answered: answered, Ended: func() {}})
	return c
}

func ignore(Answer) error { return nil }

func send(c *Conn, op proto.Op, r proto.Record) outcome {
	answered := make(outcome, 1)
	c.Send(&Request{Op: op, Frame: r.Append(Begin(64)), Handler: answered})
	return answered
}

// TestServersRefuseEarly: with enableEagerACLCheck the members of an ensemble answer what is not
// allowed before they have carried out what was sent earlier, and the connection continues.
func TestServersRefuseEarly(t *testing.T) {
	e := ensemble.New(t, ensemble.WithEnv("JVMFLAGS", "-Dzookeeper.enableEagerACLCheck=true"))
	early := false
	for _, server := range e.Servers() {
		var codes []proto.Code
		c := connect(t, server, Hello{}, func(a Answer) error { codes = append(codes, a.Code); return nil })
		for path, perms := range map[string]int32{"/open": zk.PermAll, "/closed": zk.PermRead} {
			if err := <-send(c, proto.OpCreate, &proto.CreateRequest{Path: path, ACL: []proto.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}}); err != nil {
				require.ErrorIs(t, err, zk.ErrNodeExists)
			}
		}
		set := func(path string) outcome {
			return send(c, proto.OpSetData, &proto.SetDataRequest{Path: path, Version: -1})
		}
		before, refused, behind := []outcome{set("/open"), set("/open"), set("/open")}, set("/closed"), set("/open")
		for _, allowed := range append(before, behind) {
			require.NoError(t, <-allowed)
		}
		require.ErrorIs(t, <-refused, zk.ErrNoAuth)
		c.CloseSession(t.Context())
		<-c.Done()
		early = early || codes[2] == proto.NoAuth // behind the creates
	}
	require.True(t, early, "each refusal came in its turn")
}
