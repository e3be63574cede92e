package zktest

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// words are the four-letter words, with their answers. s.mu is held.
var words = map[string]func(s *Server) string{
	"ruok": func(*Server) string { return "imok" },
	"isro": func(*Server) string { return "rw" },
	"gtmk": func(*Server) string { return "306" }, // of the trace that real servers write by default
	"srvr": func(s *Server) string { return s.versionText() + s.serverText() },
	"stat": func(s *Server) string {
		return s.versionText() + "Clients:\n" + s.clientsText(false) + "\n" + s.serverText()
	},
	"mntr": (*Server).monitorText,
	"conf": (*Server).configText,
	"cons": func(s *Server) string { return s.clientsText(true) + "\n" },
	"envi": func(s *Server) string { return s.environmentText() },
	"dirs": func(*Server) string { return "datadir_size: 0\nlogdir_size: 0\n" },
	"dump": (*Server).dumpText,
	"wchs": (*Server).watchSummary,
	"wchc": func(s *Server) string { return lists(s.watchers(false)) + "\n" },
	"wchp": func(s *Server) string { return lists(s.watchers(true)) + "\n" },
	"crst": (*Server).resetConnections,
	"srst": func(s *Server) string { s.traffic = traffic{}; s.received.Store(0); return "Server stats reset.\n" },
}

// wordsUnknown are those that a real server knows beside these, for its own trace.
var wordsUnknown = []string{"hash", "lead", "orst", "stmk"}

// WithWords lists the four-letter words that are answered, as 4lw.commands.whitelist does. "*",
// which is the default, stands for all: conf, cons, crst, dirs, dump, envi, gtmk, isro, mntr,
// ruok, srst, srvr, stat, wchc, wchp and wchs. The others are answered with a refusal.
func WithWords(list ...string) Option {
	return func(c *config) error {
		for _, word := range list {
			if words[word] == nil && word != "*" {
				return fmt.Errorf("zktest: no such four-letter word: %q", word)
			}
		}
		c.words = slices.Clone(list)
		return nil
	}
}

// isWord reports whether the first bytes of a connection are a four-letter word. Read
// as the length of a request they would be far too long.
func isWord(s string) bool { return words[s] != nil || slices.Contains(wordsUnknown, s) }

// word answers a four-letter word.
func (s *Server) word(word string) string {
	answer := words[word]
	if answer == nil || !slices.Contains(s.cfg.words, word) && !slices.Contains(s.cfg.words, "*") {
		return word + " is not executed because it is not in the whitelist.\n"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received.Add(1)
	defer func() { s.traffic.sent++ }()
	return answer(s)
}

// fullVersion says whose behaviour it is. The date is in the form that go-zookeeper's
// FLWSrvr can read, which is not today's.
func (s *Server) fullVersion() string {
	return s.cfg.version.String() + "-zktest, built on 01/01/2026 00:00 UTC"
}

func (s *Server) versionText() string { return "Zookeeper version: " + s.fullVersion() + "\n" }

func (s *Server) serverText() string {
	var b strings.Builder
	b.WriteString("Latency min/avg/max: 0/0.0/0\n")
	fmt.Fprintf(&b, "Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n",
		s.received.Load(), s.traffic.sent, len(s.conns), s.outstanding())
	fmt.Fprintf(&b, "Zxid: %#x\nMode: %s\nNode count: %d\n", s.tree.zxid, s.mode(), len(s.tree.nodes))
	return b.String()
}

// mode is what the server is among others. s.mu is held.
func (s *Server) mode() string {
	switch m := s.member; {
	case m == nil:
		return "standalone"
	case m.leads():
		return "leader"
	}
	return "follower"
}

// outstanding is the number of requests that have arrived and were not carried out. s.mu is
// held.
func (s *Server) outstanding() int {
	sum := 0
	for c := range s.conns {
		sum += c.in.len()
	}
	return sum
}

func (s *Server) clientsText(long bool) string {
	var b strings.Builder
	for _, c := range s.connsInOrder() {
		interest := 1
		if c.session == nil {
			interest = 0 // who asks with a word is not listened to any more
		}
		fmt.Fprintf(&b, " /%s[%d](queued=%d,recved=%d,sent=%d", c.net.RemoteAddr(), interest, c.in.len(), c.received.Load(), c.traffic.sent)
		if long && c.session != nil {
			fmt.Fprintf(&b, ",sid=%#x,lop=%s,est=%d,to=%d", c.session.id, c.last.short(), c.since.UnixMilli(), c.session.timeout.Milliseconds())
			if c.last != 0 { // or it has been reset
				fmt.Fprintf(&b, ",lcxid=%#x", uint32(c.lastXid))
			}
			fmt.Fprintf(&b, ",lzxid=%#x,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0", uint64(c.lastZxid))
		}
		b.WriteString(")\n")
	}
	return b.String()
}

// short is what cons calls an operation.
func (o Op) short() string {
	name := map[Op]string{0: "NA", OpConnect: "SESS", OpSetWatches: "SETW", OpSetWatches2: "STW2"}[o]
	if name == "" {
		name = strings.ToUpper(o.String())
	}
	return name[:min(4, len(name))]
}

func (s *Server) monitorText() string {
	var b strings.Builder
	row := func(name string, value any) { fmt.Fprintf(&b, "zk_%s\t%v\n", name, value) }
	row("version", s.fullVersion())
	row("server_state", s.mode())
	row("num_alive_connections", len(s.conns))
	row("outstanding_requests", s.outstanding())
	row("packets_received", s.received.Load())
	row("packets_sent", s.traffic.sent)
	row("znode_count", len(s.tree.nodes))
	row("watch_count", s.watchCount())
	ephemerals, size := 0, 0
	for path, n := range s.tree.nodes {
		size += len(path) + len(n.data)
		if n.stat.EphemeralOwner != 0 {
			ephemerals++
		}
	}
	row("ephemerals_count", ephemerals)
	row("approximate_data_size", size)
	row("global_sessions", len(s.sessions))
	row("min_latency", 0)
	row("avg_latency", "0.0")
	row("max_latency", 0)
	return b.String()
}

func (s *Server) configText() string {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		port = "0"
	}
	return fmt.Sprintf("clientPort=%s\ntickTime=%d\nmaxClientCnxns=0\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nserverId=0\n",
		port, s.cfg.tick.Milliseconds(), s.cfg.minTimeout.Milliseconds(), s.cfg.maxTimeout.Milliseconds())
}
