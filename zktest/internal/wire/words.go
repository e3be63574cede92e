package wire

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/cluster"
)

// words are the four-letter words, with their answers.
var words = map[string]func(s *Server) string{
	"ruok": func(*Server) string { return "imok" },
	"isro": func(*Server) string { return "rw" },
	"gtmk": func(*Server) string { return "306" }, // the default trace of real servers
	"srvr": func(s *Server) string { return s.versionText() + s.serverText() },
	"stat": func(s *Server) string {
		return s.versionText() + "Clients:\n" + s.clientsText(false) + "\n" + s.serverText()
	},
	"mntr": (*Server).monitorText,
	"conf": (*Server).configText,
	"cons": func(s *Server) string { return s.clientsText(true) + "\n" },
	"envi": func(s *Server) string { return environmentText(s.fullVersion()) },
	"dirs": func(*Server) string { return "datadir_size: 0\nlogdir_size: 0\n" },
	"dump": (*Server).dumpText,
	"wchs": (*Server).watchSummary,
	"wchc": func(s *Server) string { return lists(s.watchers(false)) + "\n" },
	"wchp": func(s *Server) string { return lists(s.watchers(true)) + "\n" },
	"crst": (*Server).resetConnections,
	"srst": (*Server).resetServer,
}

// wordsUnknown are the other words of a real server, for its own trace.
var wordsUnknown = []string{"hash", "lead", "orst", "stmk"}

// KnownWord reports whether the server implements a four-letter word.
func KnownWord(word string) bool { return words[word] != nil }

// isWord reports whether the first bytes of a connection are a four-letter word. As the length of a
// request they would be far too long.
func isWord(s string) bool { return words[s] != nil || slices.Contains(wordsUnknown, s) }

// word answers a four-letter word. The lock is not held.
func (s *Server) word(word string) string {
	answer := words[word]
	if answer == nil || !slices.Contains(s.cfg.Words, word) && !slices.Contains(s.cfg.Words, "*") {
		return word + " is not executed because it is not in the whitelist.\n"
	}
	s.Lock()
	defer s.Unlock()
	s.received.Add(1)
	defer func() { s.sent++ }()
	return answer(s)
}

// fullVersion returns the version that the server imitates.
func (s *Server) fullVersion() string {
	return s.cfg.Version.String() + "-zktest, built on 2026-01-01 00:00 UTC"
}

// nodeCount returns the number of nodes as a real server counts them: the root has two names.
func (s *Server) nodeCount() int {
	if s.cfg.Keeper != 0 {
		return len(s.Tree.Nodes)
	}
	return len(s.Tree.Nodes) + 1
}

func (s *Server) versionText() string { return "Zookeeper version: " + s.fullVersion() + "\n" }

func (s *Server) serverText() string {
	var b strings.Builder
	b.WriteString("Latency min/avg/max: 0/0.0/0\n")
	fmt.Fprintf(&b, "Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n",
		s.received.Load(), s.sent, len(s.conns), s.outstanding())
	fmt.Fprintf(&b, "Zxid: %#x\nMode: %s\nNode count: %d\n", s.Tree.Zxid, s.quorum.Role(), s.nodeCount())
	return b.String()
}

// outstanding returns the number of requests that have arrived and were not carried out.
func (s *Server) outstanding() int {
	sum := 0
	for c := range s.conns {
		sum += c.in.Len()
	}
	return sum
}

func (s *Server) clientsText(long bool) string {
	var b strings.Builder
	for _, c := range s.connsInOrder() {
		interest := 1
		if c.session == nil {
			interest = 0 // nothing is read after a word
		}
		fmt.Fprintf(&b, " /%s[%d](queued=%d,recved=%d,sent=%d", c.net.RemoteAddr(), interest, c.in.Len(), c.received.Load(), c.sent)
		if long && c.session != nil {
			fmt.Fprintf(&b, ",sid=%#x,lop=%s,est=%d,to=%d", c.session.ID, shortName(c.last), c.since.UnixMilli(), c.session.Timeout.Milliseconds())
			if c.last != 0 { // or it has been reset
				fmt.Fprintf(&b, ",lcxid=%#x", uint32(c.lastXid))
			}
			fmt.Fprintf(&b, ",lzxid=%#x,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0", uint64(c.lastZxid))
		}
		b.WriteString(")\n")
	}
	return b.String()
}

// shortName is what cons calls an operation.
func shortName(o proto.Op) string {
	name := map[proto.Op]string{0: "NA", proto.OpConnect: "SESS", proto.OpSetWatches: "SETW", proto.OpSetWatches2: "STW2"}[o]
	if name == "" {
		name = strings.ToUpper(o.String())
	}
	return name[:min(4, len(name))]
}

// peerStates are the states of a cluster's members as mntr reports them.
var peerStates = map[cluster.Role]string{cluster.Leader: "leading - broadcast", cluster.Follower: "following - broadcast"}

func (s *Server) monitorText() string {
	var b strings.Builder
	row := func(name string, value any) { fmt.Fprintf(&b, "zk_%s\t%v\n", name, value) }
	row("version", s.fullVersion())
	row("server_state", s.quorum.Role())
	if state := peerStates[s.quorum.Role()]; state != "" {
		row("peer_state", state)
	}
	row("num_alive_connections", len(s.conns))
	row("outstanding_requests", s.outstanding())
	row("packets_received", s.received.Load())
	row("packets_sent", s.sent)
	row("znode_count", s.nodeCount())
	row("watch_count", s.WatchCount())
	ephemerals, size := 0, 0
	for path, n := range s.Tree.Nodes {
		size += len(path) + len(n.Data)
		if n.Stat.EphemeralOwner != 0 {
			ephemerals++
		}
	}
	row("ephemerals_count", ephemerals)
	row("approximate_data_size", size)
	row("global_sessions", len(s.Sessions))
	row("min_latency", 0)
	row("avg_latency", "0.0")
	row("max_latency", 0)
	row("uptime", time.Since(s.started).Milliseconds())
	open, limit := fileDescriptors()
	row("open_file_descriptor_count", open)
	row("max_file_descriptor_count", limit)
	return b.String()
}

// fileDescriptors returns how many this process has open, and how many it may have. They are -1
// where there is no /proc.
func fileDescriptors() (open, limit int) {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1, -1
	}
	limits, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return len(files), -1
	}
	_, after, _ := strings.Cut(string(limits), "Max open files")
	if _, err := fmt.Sscan(after, &limit); err != nil {
		limit = -1 // or it is unlimited
	}
	return len(files), limit
}

func (s *Server) configText() string {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		port = "0"
	}
	return fmt.Sprintf("clientPort=%s\ntickTime=%d\nmaxClientCnxns=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nserverId=0\n",
		port, s.cfg.Tick.Milliseconds(), s.cfg.MaxConns, s.cfg.MinTimeout.Milliseconds(), s.cfg.MaxTimeout.Milliseconds())
}
