package testbed

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// World is a server in a synctest bubble.
type World struct {
	Server *zktest.Server
	t      *testing.T
	bed    *Bed
}

// Client returns a client of the server, which is closed when the test ends.
func (w *World) Client(opts ...framework.Option) *framework.Client {
	w.t.Helper()
	return w.bed.Client(w.t, append([]framework.Option{framework.WithDialer(w.Server.DialContext)}, opts...)...)
}

// Bubble is [synctest.Test] for tests with [Must]: a panic in a bubble ends the program without the
// name of the test and its output.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			switch r := recover().(type) {
			case nil:
			case failure:
				t.Fatalf("%v\n%s", r.error, debug.Stack())
			default:
				panic(r)
			}
		}()
		test(t)
	})
}

// Virtual runs test in a synctest bubble with a server inside, so that waiting costs no time.
func Virtual(t *testing.T, test func(t *testing.T, w *World), opts ...zktest.Option) {
	t.Helper()
	Bubble(t, func(t *testing.T) {
		server := zktest.NewServer(t, append(opts, zktest.WithInMemory(), zktest.WithTimeline())...)
		test(t, &World{Server: server, t: t, bed: On(server)})
	})
}

// RunWorld runs a subtest in a synctest bubble with a server inside.
func RunWorld(t *testing.T, name string, test func(t *testing.T, w *World), opts ...zktest.Option) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) { Virtual(t, test, opts...) })
}

// Faults lists every way in which a request can fail.
var Faults = []zktest.Fault{zktest.FailBefore, zktest.LoseReply, zktest.ExpireBefore, zktest.ExpireAfter}

// Scenario is one run of a test of [EachRequest], in virtual time. The requests of all clients but
// Other may meet the fault.
type Scenario struct {
	*World
	Subject, Other *framework.Client
	Expires        bool // the fault ends the session

	spared atomic.Bool
}

// Spare keeps the fault away from all requests until it is called with false.
func (s *Scenario) Spare(spare bool) { s.spared.Store(spare) }

// maxRequests is above the number of requests of any scenario.
const maxRequests = 100

// EachRequest runs test with the subject's first request failing, then its second, and so on, until
// a run ends without meeting the fault; for each of [Faults]. The subject has opts.
func EachRequest(t *testing.T, test func(t *testing.T, s *Scenario), opts ...framework.Option) {
	t.Helper()
	for _, fault := range Faults {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			met := true
			for n := 0; met; n++ {
				met = false // even when -run leaves this subtest out
				require.Less(t, n, maxRequests, "the scenario never ends")
				t.Run(fmt.Sprintf("request %d", n), func(t *testing.T) {
					Virtual(t, func(t *testing.T, w *World) {
						s := &Scenario{
							World: w, Subject: w.Client(opts...), Other: w.Client(),
							Expires: fault == zktest.ExpireBefore || fault == zktest.ExpireAfter,
						}
						other, err := s.Other.Session(Context(t))
						require.NoError(t, err)
						injected := w.Server.Inject(fault, n, zktest.On(func(r zktest.Request) bool {
							return r.Session != other.ID() && !s.spared.Load()
						}))
						test(t, s)
						met = injected.Met()
					})
				})
			}
		})
	}
}

// RunVirtual runs a subtest in a synctest bubble, so that waiting costs no time.
func RunVirtual(t *testing.T, name string, test func(t *testing.T)) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) { Bubble(t, test) })
}
