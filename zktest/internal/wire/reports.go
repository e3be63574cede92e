package wire

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/zktest/internal/cluster"
)

// connsInOrder lists the connections, the oldest first.
func (s *Server) connsInOrder() []*Conn {
	return slices.SortedFunc(maps.Keys(s.conns), func(a, b *Conn) int { return a.since.Compare(b.since) })
}

// environmentText contains the lines of a real server's environment that have a meaning here.
func environmentText(version string) string {
	var b strings.Builder
	b.WriteString("Environment:\n")
	row := func(name, value string) { fmt.Fprintf(&b, "%s=%s\n", name, value) }
	host, _ := os.Hostname()
	home, _ := os.UserHomeDir()
	dir, _ := os.Getwd()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	row("zookeeper.version", version)
	row("host.name", cmp.Or(host, "localhost"))
	row("java.version", runtime.Version()) // some clients want the row
	row("java.io.tmpdir", os.TempDir())
	row("os.name", runtime.GOOS)
	row("os.arch", runtime.GOARCH)
	row("user.name", os.Getenv("USER"))
	row("user.home", home)
	row("user.dir", dir)
	row("os.memory.free", fmt.Sprintf("%dMB", memory.HeapIdle>>20))
	row("os.memory.total", fmt.Sprintf("%dMB", memory.Sys>>20))
	return b.String()
}

// list is a title with lines below it.
type list struct {
	title string
	lines []string
}

// lists prints titles, each with its lines below it, after a tab.
func lists(all []list) string {
	var b strings.Builder
	for _, l := range all {
		b.WriteString(l.title + "\n")
		for _, line := range l.lines {
			b.WriteString("\t" + line + "\n")
		}
	}
	return b.String()
}

// grouped returns a list for each key, in the order of the keys.
func grouped[K cmp.Ordered](lines map[K][]string, title func(K, int) string) []list {
	var all []list
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		slices.Sort(lines[key])
		all = append(all, list{title(key, len(lines[key])), lines[key]})
	}
	return all
}

// dumpText lists sessions and connections by the tick at which they expire, and ephemeral nodes by
// session.
func (s *Server) dumpText() string {
	s.Hear()
	owned := map[int64][]string{}
	for id := range s.Sessions {
		if paths := s.Tree.Owned(id); len(paths) > 0 {
			owned[id] = paths
		}
	}
	return "SessionTracker dump:\n" + s.dumpSessions() +
		fmt.Sprintf("ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(owned)) +
		lists(grouped(owned, func(id int64, _ int) string { return SessionText(id) + ":" })) +
		s.dumpConnections()
}

// expiring is the title of a list of what expires at a time.
func expiring(at int64, count int) string {
	return fmt.Sprintf("%d expire at %s:", count, time.Unix(0, at).Format("Mon Jan 02 15:04:05 MST 2006"))
}

// dumpSessions lists sessions. A follower does not know when they expire.
func (s *Server) dumpSessions() string {
	if s.quorum.Role() == cluster.Follower {
		text := fmt.Sprintf("Global Sessions(%d):\n", len(s.Sessions))
		for _, id := range slices.Sorted(maps.Keys(s.Sessions)) {
			text += fmt.Sprintf("%s\t%dms\n", SessionText(id), s.Sessions[id].Timeout.Milliseconds())
		}
		return text
	}
	sessions := map[int64][]string{}
	for id := range s.Sessions {
		at := s.quorum.Expires(id).UnixNano()
		sessions[at] = append(sessions[at], SessionText(id))
	}
	return fmt.Sprintf("Session Sets (%d)/(%d):\n", len(sessions), len(s.Sessions)) + lists(grouped(sessions, expiring))
}

// dumpConnections lists connections. One without a session ends when the handshake takes too long.
func (s *Server) dumpConnections() string {
	conns := map[int64][]string{}
	for c := range s.conns {
		at, id := c.since.Add(handshakeTimeout), int64(0)
		if c.session != nil {
			at, id = s.quorum.Expires(c.session.ID), c.session.ID
		}
		key := at.UnixNano()
		conns[key] = append(conns[key], fmt.Sprintf("ip: /%s sessionId: %#x", c.net.RemoteAddr(), id))
	}
	return fmt.Sprintf("Connections dump:\nConnections Sets (%d)/(%d):\n", len(conns), len(s.conns)) + lists(grouped(conns, expiring))
}

// handshakeTimeout is how long a real server waits for the handshake.
const handshakeTimeout = 10 * time.Second

// watchSummary counts watches as real servers do for this word: only watches of data.
func (s *Server) watchSummary() string {
	conns, sum := s.watchers(false), 0
	for _, l := range conns {
		sum += len(l.lines)
	}
	return fmt.Sprintf("%d connections watching %d paths\nTotal watches:%d\n", len(conns), len(s.watchers(true)), sum)
}

// watchers lists the paths that each session watches, or the sessions that watch each path.
func (s *Server) watchers(byPath bool) []list {
	lines := map[string][]string{}
	for c := range s.conns {
		for path := range c.data {
			key, line := SessionText(c.session.ID), path
			if byPath {
				key, line = line, key
			}
			lines[key] = append(lines[key], line)
		}
	}
	return grouped(lines, func(key string, _ int) string { return key })
}

// resetConnections forgets the counts of connections.
func (s *Server) resetConnections() string {
	for c := range s.conns {
		c.sent, c.last, c.lastXid, c.lastZxid = 0, 0, 0, -1
		c.received.Store(0)
	}
	return "Connection stats reset.\n"
}

// resetServer forgets the counts of the server.
func (s *Server) resetServer() string {
	s.sent = 0
	s.received.Store(0)
	return "Server stats reset.\n"
}
