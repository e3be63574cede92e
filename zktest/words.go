package zktest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// connsInOrder lists the connections, the oldest first. s.mu is held.
func (s *Server) connsInOrder() []*conn {
	return slices.SortedFunc(maps.Keys(s.conns), func(a, b *conn) int { return a.since.Compare(b.since) })
}

// environmentText has the lines of a real server's environment that mean something here.
func (s *Server) environmentText() string {
	var b strings.Builder
	b.WriteString("Environment:\n")
	row := func(name, value string) { fmt.Fprintf(&b, "%s=%s\n", name, value) }
	host, _ := os.Hostname()
	home, _ := os.UserHomeDir()
	dir, _ := os.Getwd()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	row("zookeeper.version", s.fullVersion())
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

// grouped makes lists of what belongs to the same key, in the order of the keys.
func grouped[K cmp.Ordered](lines map[K][]string, title func(K, int) string) []list {
	var all []list
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		slices.Sort(lines[key])
		all = append(all, list{title(key, len(lines[key])), lines[key]})
	}
	return all
}

func sessionText(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

// dumpText lists sessions and connections by the tick at which they end, and ephemeral nodes by
// session. s.mu is held.
func (s *Server) dumpText() string {
	expires := func(at int64, count int) string {
		return fmt.Sprintf("%d expire at %s:", count, time.Unix(0, at).Format("Mon Jan 02 15:04:05 MST 2006"))
	}
	sessions, conns := map[int64][]string{}, map[int64][]string{}
	owned := map[int64][]string{}
	s.hearAll()
	for id := range s.sessions {
		at := s.expires(id)
		sessions[at] = append(sessions[at], sessionText(id))
		if paths := s.tree.owned(id); len(paths) > 0 {
			owned[id] = paths
		}
	}
	for c := range s.conns {
		at, id := c.since.Add(handshakeTimeout).UnixNano(), int64(0)
		if c.session != nil {
			at, id = s.expires(c.session.id), c.session.id
		}
		conns[at] = append(conns[at], fmt.Sprintf("ip: /%s sessionId: %#x", c.net.RemoteAddr(), id))
	}
	sets := fmt.Sprintf("Session Sets (%d)/(%d):\n", len(sessions), len(s.sessions)) + lists(grouped(sessions, expires))
	if s.member != nil && !s.member.leads() {
		sets = s.globalSessions() // only the leader knows when they end
	}
	return "SessionTracker dump:\n" + sets +
		fmt.Sprintf("ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(owned)) +
		lists(grouped(owned, func(id int64, _ int) string { return sessionText(id) + ":" })) +
		fmt.Sprintf("Connections dump:\nConnections Sets (%d)/(%d):\n", len(conns), len(s.conns)) +
		lists(grouped(conns, expires))
}

// globalSessions lists sessions as a follower does. s.mu is held.
func (s *Server) globalSessions() string {
	text := fmt.Sprintf("Global Sessions(%d):\n", len(s.sessions))
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		text += fmt.Sprintf("%s\t%dms\n", sessionText(id), s.sessions[id].timeout.Milliseconds())
	}
	return text
}

// expires is when a session ends if it is not heard any more, in nanoseconds since 1970. s.mu is
// held.
func (s *Server) expires(id int64) int64 {
	trusted := s.tracker
	if s.member != nil && s.member.term != nil {
		trusted = s.member.term.tracker
	}
	if t := trusted.sessions[id]; t != nil {
		return t.expires.UnixNano()
	}
	return time.Now().UnixNano()
}

// handshakeTimeout is how long a real server waits for the handshake.
const handshakeTimeout = 10 * time.Second

// watchSummary counts watches as real servers do for this word: those of data only. s.mu is
// held.
func (s *Server) watchSummary() string {
	conns, sum := s.watchers(false), 0
	for _, l := range conns {
		sum += len(l.lines)
	}
	return fmt.Sprintf("%d connections watching %d paths\nTotal watches:%d\n", len(conns), len(s.watchers(true)), sum)
}

// watchers lists the paths that each session watches, or the sessions that watch each path.
// s.mu is held.
func (s *Server) watchers(byPath bool) []list {
	lines := map[string][]string{}
	for c := range s.conns {
		for path := range c.watches.data {
			key, line := sessionText(c.session.id), path
			if byPath {
				key, line = line, key
			}
			lines[key] = append(lines[key], line)
		}
	}
	return grouped(lines, func(key string, _ int) string { return key })
}

// resetConnections forgets what was counted for connections. s.mu is held.
func (s *Server) resetConnections() string {
	for c := range s.conns {
		c.traffic, c.last, c.lastXid, c.lastZxid = traffic{}, 0, 0, -1
		c.received.Store(0)
	}
	return "Connection stats reset.\n"
}
