package testbed

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// Virtual runs test in a synctest bubble with a server inside, so that waiting costs no time. client makes a client
// of the server, as [Bed.Client] does.
func Virtual(
	t *testing.T, test func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client), opts ...zktest.Option,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, append(opts, zktest.WithInMemory())...)
		bed := On(server)
		test(t, server, func(opts ...framework.Option) *framework.Client {
			return bed.Client(t, append([]framework.Option{framework.WithDialer(server.DialContext)}, opts...)...)
		})
	})
}

// Faults is every way in which a request can fail.
var Faults = []zktest.Fault{zktest.FailBefore, zktest.LoseReply, zktest.ExpireBefore, zktest.ExpireAfter}

// Scenario is one run of a test of [EachRequest], in virtual time. The requests of all clients but Other may meet the fault.
type Scenario struct {
	Server         *zktest.Server
	Client         func(...framework.Option) *framework.Client // makes one more
	Subject, Other *framework.Client
	Expires        bool // the fault ends the session

	spared atomic.Bool
}

// Spare keeps the fault away from all requests until it is called with false.
func (s *Scenario) Spare(spare bool) { s.spared.Store(spare) }

// maxRequests is more than any scenario has.
const maxRequests = 100

// EachRequest runs test with the subject's first request failing, then its second, and so on, until a run ends without
// meeting the fault; for each of [Faults]. The subject has opts.
func EachRequest(t *testing.T, test func(t *testing.T, s *Scenario), opts ...framework.Option) {
	t.Helper()
	for _, fault := range Faults {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			met := true
			for n := 0; met; n++ {
				met = false // also when -run leaves this one out
				require.Less(t, n, maxRequests, "the scenario never ends")
				t.Run(fmt.Sprintf("request %d", n), func(t *testing.T) {
					Virtual(t, func(t *testing.T, server *zktest.Server, client func(...framework.Option) *framework.Client) {
						s := &Scenario{
							Server: server, Client: client, Subject: client(opts...), Other: client(),
							Expires: fault == zktest.ExpireBefore || fault == zktest.ExpireAfter,
						}
						other, err := s.Other.Session(Context(t))
						require.NoError(t, err)
						injected := server.Inject(fault, n, func(r zktest.Request) bool {
							return r.Session != other.ID() && !s.spared.Load()
						})
						test(t, s)
						met = injected.Met()
					})
				})
			}
		})
	}
}
