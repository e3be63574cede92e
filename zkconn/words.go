package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// FLWSrvr sends the command srvr to each server, and returns the parsed answers in the order of
// servers. If an answer is missing or invalid, its ServerStats contains an Error, and FLWSrvr
// returns false.
func FLWSrvr(servers []string, timeout time.Duration) ([]*ServerStats, bool) {
	return eachServer(servers, func(server string) (*ServerStats, bool) {
		answer, err := word(server, "srvr", timeout)
		var stats ServerStats
		if err == nil {
			stats, err = parseSrvr(answer)
		}
		stats.Server, stats.Error = server, err
		return &stats, err == nil
	})
}

// FLWRuok sends the command ruok to each server, and reports for each server whether it answered
// imok.
func FLWRuok(servers []string, timeout time.Duration) []bool {
	oks, _ := eachServer(servers, func(server string) (bool, bool) {
		answer, err := word(server, "ruok", timeout)
		return err == nil && strings.HasPrefix(answer, "imok"), true
	})
	return oks
}

// FLWCons sends the command cons to each server, and returns the sessions that each answer lists.
// Connections without a session are skipped. If an answer is missing or invalid, its ServerClients
// contains an Error, and FLWCons returns false.
func FLWCons(servers []string, timeout time.Duration) ([]*ServerClients, bool) {
	return eachServer(servers, func(server string) (*ServerClients, bool) {
		answer, err := word(server, "cons", timeout)
		var clients []*ServerClient
		if err == nil {
			clients, err = parseCons(answer)
		}
		return &ServerClients{Clients: clients, Error: err}, err == nil
	})
}

// eachServer calls ask for one server after another, and reports whether all answers are good.
func eachServer[T any](servers []string, ask func(server string) (answer T, good bool)) (answers []T, good bool) {
	good = true
	for _, server := range FormatServers(servers) {
		answer, ok := ask(server)
		answers, good = append(answers, answer), good && ok
	}
	return answers, good
}

// word sends a four-letter word. The server replies with text and closes the connection.
func word(server, word string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(background, timeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(c, maxAnswer))
	return string(answer), err
}

// maxAnswer limits the length of an answer to a four-letter word.
const maxAnswer = 64 << 20

var (
	errAnswer = errors.New("zk: the server's answer cannot be parsed")

	// buildTimes are the layouts of servers' build times: first ZooKeeper 3.5 and older, then 3.6
	// and newer.
	buildTimes = []string{"01/02/2006 15:04 MST", "2006-01-02 15:04 MST"}
)

// srvr matches an answer to srvr. Until 3.5 the latencies are integers.
var srvr = regexp.MustCompile(`(?m:\AZookeeper version: ([^,\n]+), built on ([^\n]+)\n` +
	`Latency min/avg/max: (\d+)/([0-9.]+)/(\d+)\nReceived: (\d+)\nSent: (\d+)\nConnections: (\d+)\nOutstanding: (\d+)\n` +
	`Zxid: 0x([0-9a-f]+)\nMode: (\w+)\nNode count: (\d+))`)

func parseSrvr(answer string) (ServerStats, error) {
	m := srvr.FindStringSubmatch(answer)
	if m == nil {
		return ServerStats{}, errAnswer
	}
	n := numbers{}
	zxid := n.unsigned(m[10], 16)
	average, err := strconv.ParseFloat(m[4], 64)
	n.note(err)
	s := ServerStats{
		Version: m[1], MinLatency: n.signed(m[3]), AvgLatency: average, MaxLatency: n.signed(m[5]),
		Received: n.signed(m[6]), Sent: n.signed(m[7]), Connections: n.signed(m[8]), Outstanding: n.signed(m[9]),
		Epoch: int32(zxid >> 32), Counter: int32(zxid), NodeCount: n.signed(m[12]), Mode: ModeUnknown,
	}
	for text, mode := range map[string]Mode{"leader": ModeLeader, "follower": ModeFollower, "standalone": ModeStandalone} {
		if m[11] == text {
			s.Mode = mode
		}
	}
	for _, form := range buildTimes {
		if built, err := time.Parse(form, m[2]); err == nil {
			s.BuildTime = built
			return s, n.err
		}
	}
	return ServerStats{}, fmt.Errorf("%w: invalid build time %q", errAnswer, m[2])
}

// cons matches a line of an answer to cons.
var cons = regexp.MustCompile(`^ /(\S+)\[\d+\]\(queued=(\d+),recved=(\d+),sent=(\d+)` +
	`(?:,sid=(0x[0-9a-f]+),lop=(\w+),est=(\d+),to=(\d+),lcxid=(0x[0-9a-f]+),lzxid=(0x[0-9a-f]+),lresp=(\d+),llat=(\d+),` +
	`minlat=(\d+),avglat=(\d+),maxlat=(\d+))?\)`)

func parseCons(answer string) (clients []*ServerClient, err error) {
	for line := range strings.Lines(answer) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		m := cons.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%w: %q", errAnswer, line)
		}
		if m[5] == "" {
			continue // no session
		}
		n := numbers{}
		clients = append(clients, &ServerClient{
			Addr: m[1], Queued: n.signed(m[2]), Received: n.signed(m[3]), Sent: n.signed(m[4]),
			SessionID: int64(n.unsigned(m[5], 0)), LastOperation: m[6], Established: time.Unix(n.signed(m[7]), 0),
			Timeout: int32(n.signed(m[8])), Lcxid: int64(n.unsigned(m[9], 0)), Lzxid: int64(n.unsigned(m[10], 0)),
			LastResponse: time.Unix(n.signed(m[11]), 0), LastLatency: int32(n.signed(m[12])), MinLatency: int32(n.signed(m[13])),
			AvgLatency: int32(n.signed(m[14])), MaxLatency: int32(n.signed(m[15])),
		})
		if n.err != nil {
			return nil, n.err
		}
	}
	return clients, nil
}

// numbers parses numbers and keeps the first error.
type numbers struct{ err error }

func (n *numbers) note(err error) {
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("%w: %w", errAnswer, err)
	}
}

func (n *numbers) signed(text string) int64 {
	v, err := strconv.ParseInt(text, 10, 64)
	n.note(err)
	return v
}

func (n *numbers) unsigned(text string, base int) uint64 {
	v, err := strconv.ParseUint(text, base, 64)
	n.note(err)
	return v
}
