package zktest_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

// A client observes the same on a server of this package, on members of its cluster, and on real
// servers.

// system is what the list is checked on.
type system struct {
	servers    []string
	expire     func(t *testing.T, id int64)
	loseLeader func(t *testing.T) (back func()) // returns when there is another leader
	root       string
}

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		s := zktest.NewServer(t)
		conform(t, system{
			servers: s.Servers(),
			expire:  func(t *testing.T, id int64) { require.NoError(t, s.ExpireSession(id)) },
			loseLeader: func(t *testing.T) func() {
				require.NoError(t, s.Restart())
				return func() {}
			},
		})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel() // it waits most of the time
		c := zktest.NewCluster(t, 3, zktest.WithLag(20*time.Millisecond), zktest.WithMemberLatency(2*time.Millisecond))
		conform(t, system{
			servers: c.Servers(),
			expire:  func(t *testing.T, id int64) { require.NoError(t, c.ExpireSession(id)) },
			loseLeader: func(t *testing.T) func() {
				lost := testbed.Must(c.StopLeader())
				elected(t, c)
				return func() { require.NoError(t, lost.Restart()) }
			},
		})
	})
	t.Run("ensemble", func(t *testing.T) {
		t.Parallel() // it waits most of the time
		e := ensemble.New(t)
		remind(t, e.Servers()...)
		conform(t, system{
			servers: e.Servers(),
			expire:  func(t *testing.T, id int64) { require.NoError(t, e.ExpireSession(t.Context(), id)) },
			loseLeader: func(t *testing.T) func() {
				lost, err := e.Leader(t.Context())
				require.NoError(t, err)
				require.NoError(t, e.KillServer(lost))
				require.NoError(t, e.WaitForQuorum(t.Context()))
				return func() {
					require.NoError(t, e.StartServer(lost))
					require.NoError(t, e.WaitForQuorum(t.Context()))
				}
			},
		})
	})
}

func conform(t *testing.T, s system) {
	for i, c := range []struct {
		name string
		test func(t *testing.T, s system)
	}{
		{"a session's requests are answered in order and it reads what it has written", readsOwnWrites},
		{"an event comes before the first reply that shows the new value", eventBeforeValue},
		{"the event of one's own create comes before its reply", ownEventBeforeReply},
		{"the zxid never goes back, from server to server", zxidNeverGoesBack},
		{"what was written before a sync is seen after it", syncShowsWhatWasWritten},
		{"sequence numbers are unique, without gaps, and in the order of transactions", sequenceNumbers},
		{"an ephemeral node goes with its session", ephemeralGoesWithSession},
		{"a session that has moved cannot write over its old connection", movedSessionCannotWrite},
		{"a session that has moved can be closed over its old connection", movedSessionCanBeClosed},
		{"a session survives the loss of the leader", sessionSurvives},
		{"what was answered survives the loss of the leader", answeredSurvives},
		{"the configuration of several servers has the version -1", configurationHasNoVersion},
		{"credentials do not keep a session", credentialsKeepNoSession},
		{"the next leader gives a session the timeout with which it began", nextLeaderGivesTheFirstTimeout},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			s.root = fmt.Sprintf("/conformance-%d", i)
			maker := s.client(t, 0)
			mustCreate(t, maker, s.root, 0)
			for i := range s.servers {
				s.sync(t, s.client(t, i))
			}
			c.test(t, s)
		})
	}
}

const conformanceTimeout = 5 * time.Minute

// client connects to a server, in a new session.
func (s system) client(t *testing.T, server int) *rawClient { return s.resume(t, server, nil) }

// resume connects to a server, in the session of old if that is given. It tries until it is let in:
// a server that is behind what old has seen turns it away.
func (s system) resume(t *testing.T, server int, old *rawClient) *rawClient {
	t.Helper()
	return s.ask(t, server, old, 20*time.Second)
}

// ask is the same for a timeout.
func (s system) ask(t *testing.T, server int, old *rawClient, timeout time.Duration) *rawClient {
	t.Helper()
	return letIn(t, []string{s.servers[server%len(s.servers)]}, old, timeout)
}

// letIn connects to the first of these servers that lets the client in.
func letIn(t *testing.T, servers []string, old *rawClient, timeout time.Duration) *rawClient {
	t.Helper()
	var last error
	// no server says when it lets a client in
	for end := time.Now().Add(conformanceTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, address := range servers {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				last = err
				continue
			}
			c, err := dialRaw(conn, old, timeout)
			if err == nil {
				t.Cleanup(func() { conn.Close() })
				return c
			}
			conn.Close()
			last = err
		}
	}
	t.Fatalf("%v: not let in: %v", servers, last)
	return nil
}

// look sends a request, fails the test if it has no answer, and checks that the zxid does not fall.
func look(t *testing.T, c *rawClient, op int32, body buffer) reply {
	t.Helper()
	r := ask(t, c, op, body)
	require.GreaterOrEqual(t, r.zxid, c.seen, "zxid")
	c.seen = r.zxid
	return r
}

func (s system) sync(t *testing.T, c *rawClient) { look(t, c, opSync, *new(buffer).text(s.root)) }

func readsOwnWrites(t *testing.T, s system) {
	for server := range s.servers {
		c := s.client(t, server)
		path := fmt.Sprintf("%s/n%d", s.root, server)
		mustCreate(t, c, path, 0)
		var frames []byte
		for i := range 20 { // sent at once
			for _, r := range []struct {
				op   int32
				body buffer
			}{{opSetData, setBody(path, fmt.Sprint(i))}, {opGetData, watched(path, false)}} {
				_, b := c.request(r.op, r.body)
				frames = append(frames, *new(buffer).bytes(b)...)
			}
		}
		require.NoError(t, testbed.Err(c.conn.Write(frames)))
		for i := range 20 {
			require.NoError(t, testbed.Err(c.answer(c.xid-39+2*int32(i))))
			r, err := c.answer(c.xid - 38 + 2*int32(i))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(i), (&cursor{b: r.body}).text())
		}
	}
}

func eventBeforeValue(t *testing.T, s system) {
	writer := s.client(t, 0)
	mustCreate(t, writer, s.root+"/n", 0)
	for server := range s.servers {
		c := s.client(t, server)
		s.sync(t, c)
		for i := range 10 {
			before := get(t, c, s.root+"/n")
			look(t, c, opGetData, watched(s.root+"/n", true))
			data := fmt.Sprintf("%d-%d", server, i)
			set(t, writer, s.root+"/n", data)
			for end := time.Now().Add(conformanceTimeout); ; {
				require.True(t, time.Now().Before(end), "the value is not seen")
				now := get(t, c, s.root+"/n")
				if now == data {
					break
				}
				require.Equal(t, before, now)
			}
			require.Equal(t, []string{"event 3 " + s.root + "/n"}, c.events)
			c.events = nil
		}
	}
}

func ownEventBeforeReply(t *testing.T, s system) {
	for server := range s.servers {
		c := s.client(t, server)
		s.sync(t, c)
		look(t, c, opAddWatch, addWatch(s.root, 1))
		for range 10 {
			path := mustCreate(t, c, s.root+"/n-", 3)
			require.Contains(t, c.events, "event 1 "+path)
		}
	}
}

func zxidNeverGoesBack(t *testing.T, s system) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	writer := s.client(t, 0)
	mustCreate(t, writer, s.root+"/n", 0)
	wg.Go(func() {
		for !stop.Load() {
			if _, err := writer.call(opSetData, setBody(s.root+"/n", "x")); err != nil {
				t.Errorf("set: %v", err)
				return
			}
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	c := s.client(t, 0)
	s.sync(t, c)
	version := int32(-1)
	for i := range 12 {
		for range 5 {
			r := look(t, c, opGetData, watched(s.root+"/n", false))
			require.Zero(t, r.code)
			now := versionOf(r)
			require.GreaterOrEqual(t, now, version, "the version falls")
			version = now
		}
		require.NoError(t, c.conn.Close())
		c = s.resume(t, i+1, c)
	}
}

// versionOf is the version in the answer to a getData.
func versionOf(r reply) int32 {
	body := &cursor{b: r.body}
	body.bytes()
	body.take(4 * 8) // czxid, mzxid, ctime, mtime
	return body.int()
}

func syncShowsWhatWasWritten(t *testing.T, s system) {
	for from := range s.servers {
		writer := s.client(t, from)
		for to := range s.servers {
			reader := s.client(t, to)
			for i := range 5 {
				path := fmt.Sprintf("%s/%d-%d-%d", s.root, from, to, i)
				mustCreate(t, writer, path, 0)
				s.sync(t, reader)
				require.Equal(t, "", get(t, reader, path))
			}
		}
	}
}

func sequenceNumbers(t *testing.T, s system) {
	type made struct {
		zxid int64
		path string
	}
	results := make(chan []made)
	for i := range 6 {
		c := s.client(t, i)
		s.sync(t, c)
		go func() {
			var list []made
			for range 20 {
				r, err := c.call(opCreate, create(s.root+"/n-", 2))
				if err != nil {
					t.Errorf("create: %v", err)
					break
				}
				list = append(list, made{r.zxid, (&cursor{b: r.body}).text()})
			}
			results <- list
		}()
	}
	var all []made
	for range 6 {
		all = append(all, <-results...)
	}
	slices.SortFunc(all, func(a, b made) int { return int(a.zxid - b.zxid) })
	for i, m := range all {
		require.Equal(t, fmt.Sprintf("%s/n-%010d", s.root, i), m.path)
	}
	require.Len(t, all, 120)
}

func ephemeralGoesWithSession(t *testing.T, s system) {
	for server := range s.servers {
		observer := s.client(t, server+1)
		for _, end := range []func(c *rawClient){
			func(c *rawClient) { look(t, c, opClose, nil) },
			func(c *rawClient) { s.expire(t, c.id) },
		} {
			owner := s.client(t, server)
			path := mustCreate(t, owner, s.root+"/e", 1)
			s.sync(t, observer)
			require.Zero(t, look(t, observer, opExists, watched(path, true)).code)
			end(owner)
			for end := time.Now().Add(conformanceTimeout); len(observer.events) == 0; {
				require.True(t, time.Now().Before(end), "the node stays")
				look(t, observer, opPing, nil)
			}
			require.Equal(t, []string{"event 2 " + path}, observer.events)
			observer.events = nil
			require.Equal(t, "no node", get(t, observer, path))
			require.Zero(t, s.resume(t, server, owner).id, "the session is over")
		}
	}
}

func movedSessionCannotWrite(t *testing.T, s system) {
	for server := range s.servers {
		old := s.client(t, server)
		path := mustCreate(t, old, fmt.Sprintf("%s/n%d", s.root, server), 1)
		moved := s.resume(t, server+1, old)
		require.Equal(t, old.id, moved.id)
		set(t, moved, path, "moved")
		r, err := old.call(opSetData, setBody(path, "late"))
		require.True(t, err != nil || r.code == codeSessionMoved, "answer %d", r.code)
		// Once in many runs a real server has closed the connection by now.
		moved = s.resume(t, server+1, moved)
		s.sync(t, moved)
		require.Equal(t, "moved", get(t, moved, path))
	}
}

const codeSessionMoved = -118

func movedSessionCanBeClosed(t *testing.T, s system) {
	if len(s.servers) == 1 {
		return // a server closes the old connection of a session that is resumed there
	}
	for server := range s.servers {
		old := s.client(t, server)
		moved := s.resume(t, server+1, old)
		path := mustCreate(t, moved, fmt.Sprintf("%s/n%d", s.root, server), 1)
		_, _ = old.call(opClose, nil) // the connection may end before the answer
		observer := s.client(t, server)
		require.Eventually(t, func() bool {
			s.sync(t, observer)
			return get(t, observer, path) == "no node"
		}, 15*time.Second, 10*time.Millisecond, "before the session's time of 20 s has passed")
	}
}

func sessionSurvives(t *testing.T, s system) {
	c := s.client(t, 1)
	path := mustCreate(t, c, s.root+"/owned", 1)
	back := s.loseLeader(t)
	defer back()
	again := s.anywhere(t, c)
	require.Equal(t, c.id, again.id)
	s.sync(t, again)
	require.Equal(t, "", get(t, again, path))
}

// anywhere resumes a session at whatever server lets it in.
func (s system) anywhere(t *testing.T, old *rawClient) *rawClient {
	t.Helper()
	return letIn(t, s.servers, old, 20*time.Second)
}

func answeredSurvives(t *testing.T, s system) {
	c := s.client(t, 0)
	answered, some := make(chan []string), make(chan struct{}, 1)
	go func() {
		var paths []string
		for {
			r, err := c.call(opCreate, create(s.root+"/n-", 2))
			if err != nil || r.code != 0 {
				answered <- paths
				return
			}
			c.seen = r.zxid
			if paths = append(paths, (&cursor{b: r.body}).text()); len(paths) == 10 {
				some <- struct{}{}
			}
		}
	}()
	testbed.Receive(t, some, "some writes") // the leader stops during one
	back := s.loseLeader(t)
	defer back()
	paths := <-answered
	again := s.anywhere(t, c)
	for _, path := range paths {
		require.Equal(t, "", get(t, again, path))
	}
}

// configurationHasNoVersion: the version of a configuration is in its text.
func configurationHasNoVersion(t *testing.T, s system) {
	want := int32(-1)
	if len(s.servers) == 1 {
		want = 0 // none was written
	}
	require.Equal(t, want, versionOf(look(t, s.client(t, 0), opGetData, watched("/zookeeper/config", false))))
}

func credentialsKeepNoSession(t *testing.T, s system) {
	testlevel.Need(t, testlevel.Nightly) // a real session takes its time
	for server := range s.servers {
		c := s.ask(t, server, nil, 4*time.Second)
		require.Eventually(t, func() bool {
			_, err := c.call(opAuth, digest("user:password"))
			return err != nil
		}, conformanceTimeout, 500*time.Millisecond, "the session goes on")
	}
}

// nextLeaderGivesTheFirstTimeout: who resumes a session may be given a longer timeout, but only the
// leader of that time knows it.
func nextLeaderGivesTheFirstTimeout(t *testing.T, s system) {
	if len(s.servers) == 1 {
		return // there is no next leader
	}
	testlevel.Need(t, testlevel.Nightly) // a real session takes its time
	first := s.ask(t, 0, nil, 4*time.Second)
	path := mustCreate(t, first, s.root+"/owned", 1)
	longer := s.ask(t, 1, first, 30*time.Second)
	require.Equal(t, first.id, longer.id)
	require.EqualValues(t, 30_000, longer.timeout)
	set(t, longer, path, "x")
	require.NoError(t, longer.conn.Close())
	back := s.loseLeader(t)
	defer back()
	observer := s.anywhere(t, nil)
	require.Eventually(t, func() bool {
		s.sync(t, observer)
		return get(t, observer, path) == "no node"
	}, 25*time.Second, 100*time.Millisecond, "after the first timeout, in ticks, and not after the longer one")
}
