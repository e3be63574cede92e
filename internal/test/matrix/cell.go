package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
	"github.com/gocurator/curator/zktest/timeline"
)

const (
	sessionTimeout = 10 * time.Second
	// deadline ends the waits of a story. A story that needs it hangs.
	deadline = 10 * time.Minute
	// grace is the time within which a call returns after its context has ended.
	grace = 2 * time.Minute
	// closing is the time within which Close of a client returns.
	closing = 30 * time.Second
	// flood is more requests than any cell needs.
	flood = 20_000
	// shown is the number of requests that a failed cell prints.
	shown = 25
	// longName is the length of long names.
	longName = 200
)

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// bed holds the servers of a cell.
type bed struct {
	members []*zktest.Server
	servers []string
	dial    dialer
}

// beds start servers, by the name of the variant.
var beds = map[string]func(t *testing.T, opts []zktest.Option) bed{
	"server": func(t *testing.T, opts []zktest.Option) bed { return alone(t, opts) },
	// With a latency a reply arrives after the request was sent.
	"latency": func(t *testing.T, opts []zktest.Option) bed {
		return alone(t, append(opts, zktest.WithLatency(time.Microsecond)))
	},
	"cluster": func(t *testing.T, opts []zktest.Option) bed {
		c := zktest.NewCluster(t, 3, append(opts, zktest.WithInMemory())...)
		return bed{c.Members(), c.Servers(), c.DialContext}
	},
}

func alone(t *testing.T, opts []zktest.Option) bed {
	server := zktest.NewServer(t, append(opts, zktest.WithInMemory())...)
	return bed{[]*zktest.Server{server}, server.Servers(), server.DialContext}
}

// moment is a request or a watch event, and its time.
type moment struct {
	zktest.Event
	at time.Time
}

// cell is a story under a condition.
type cell struct {
	story     Story
	condition Condition
	variant   string
	allowed   exception // the union of the exceptions for this cell

	bed     bed
	journal journal
	server  *zktest.Server

	mu     sync.Mutex // guards the fields below
	broken []string
	events [shown]moment
	seen   int // events

	requests atomic.Int64 // requests of the client under the condition, in the first round
	total    atomic.Int64 // requests of all clients
	met      atomic.Bool
	err      error // the error of the first round
}

// fail notes what is wrong.
func (c *cell) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = append(c.broken, fmt.Sprintf(format, args...))
}

// run runs both rounds in a bubble.
func (c *cell) run(t *testing.T) {
	defer func() {
		if p := recover(); p != nil { // the bubble has goroutines that never end
			c.fail("%v", p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		opts := []zktest.Option{zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"})}
		if *page != "" {
			opts = append(opts, zktest.WithTimeline())
			defer c.draw(*page)
		}
		c.bed = beds[c.variant](t, append(opts, c.condition.Server...))
		c.server = c.bed.members[0]
		for _, m := range c.bed.members {
			m.Trace(c.trace)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.round(c.condition, true)
			if c.condition.Name != "" && len(c.failures()) == 0 {
				c.round(Condition{Name: "the second round", Options: c.condition.always()}, false)
			}
		}()
		select {
		case <-ended:
		case <-time.After(10 * deadline):
			c.fail("the cell never ends:\n%s", goroutines())
		}
		for _, m := range c.bed.members {
			m.ClearFaults()
		}
	})
}

// draw writes the timeline to a file.
func (c *cell) draw(file string) {
	var b bytes.Buffer
	err := c.server.Timeline().WriteHTML(&b)
	if err == nil {
		err = os.WriteFile(file, b.Bytes(), 0o666)
	}
	if err != nil {
		c.fail("timeline: %v", err)
	}
}

func (c *cell) failures() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.broken)
}

func (c *cell) trace(e zktest.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[c.seen%shown] = moment{e, time.Now()}
	c.seen++
}

// last returns the last requests and events.
func (c *cell) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for i := max(0, c.seen-shown); i < c.seen; i++ {
		e := c.events[i%shown]
		fmt.Fprintf(&b, "  %s 0x%x %v\n", e.at.Format("15:04:05.000"), e.Session, e.Event)
	}
	return b.String()
}

// client returns a client of the cell.
func (s *Scene) client(name string, opts ...framework.Option) (*framework.Client, error) {
	b := s.cell.bed
	client, err := framework.New(b.servers, append([]framework.Option{
		framework.WithDialer(b.dial),
		framework.WithSessionTimeout(sessionTimeout),
		framework.WithLogger(s.cell.journal.logger(name)),
		timeline.Client(s.cell.server.Timeline(), name),
	}, opts...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	return client, client.WaitConnected(ctx)
}

// Client returns one more client of this cell. It is closed after the story.
func (s *Scene) Client(name string) (*framework.Client, error) {
	var opts []framework.Option
	if s.condition.Options != nil {
		opts = s.condition.Options(s, "B")
	}
	client, err := s.client(name, opts...)
	if client != nil {
		s.extra = append(s.extra, client)
	}
	return client, err
}

func (s *Scene) prefix() string {
	if s.condition.namespace == "" {
		return ""
	}
	return "/" + s.condition.namespace
}

// round tells the story once.
func (c *cell) round(condition Condition, first bool) {
	c.journal.reset()
	s := &Scene{cell: c, condition: condition, long: c.condition.long}
	s.condition.namespace, s.condition.long = c.condition.namespace, c.condition.long
	s.Path = "/app/" + s.Name("day")
	s.real = s.prefix() + s.Path
	s.base = s.prefix() + "/app"
	c.journal.exists = c.node

	if condition.Before != nil {
		condition.Before(s)
	}
	existed := map[string]bool{}
	for _, n := range c.server.Dump() {
		existed[n.Path] = true
	}
	var err error
	options := func(member string) []framework.Option {
		if condition.Options == nil {
			return nil
		}
		return condition.Options(s, member)
	}
	if s.A, err = s.client("A", options("A")...); err != nil {
		c.fail("A cannot connect: %v", err)
	}
	if s.B, err = s.client("B", options("B")...); err != nil {
		c.fail("B cannot connect: %v", err)
	}
	if s.A == nil || s.B == nil {
		return
	}
	s.root = s.A
	other, err := s.B.Session(context.Background())
	if err != nil {
		c.fail("B has no session: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	peer, cancelPeer := context.WithTimeout(context.Background(), deadline)
	defer cancelPeer()
	defer cancel()
	s.Ctx, s.Peer, s.cancel = ctx, peer, cancel
	if condition.Ready != nil {
		condition.Ready(s)
	}

	armed := atomic.Bool{}
	armed.Store(true)
	fault := condition.Fault
	if fault == 0 {
		fault = zktest.FailBefore // never met
	}
	for _, m := range c.bed.members {
		m.Inject(fault, 0, zktest.On(func(r zktest.Request) bool {
			if c.total.Add(1) == flood {
				c.fail("more than %d requests", flood)
				cancel()
				cancelPeer()
			}
			if !first || !armed.Load() || r.Session == other.ID() || r.Op == "ping" {
				return false
			}
			if n := c.requests.Add(1) - 1; int(n) == condition.At && condition.moment() {
				c.met.Store(true)
				if condition.AtRequest != nil {
					condition.AtRequest(s)
				}
				return condition.Fault != 0
			}
			return false
		}))
	}

	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- guarded(func() error { return c.story.Run(s) }) }()
	select {
	case err = <-ended:
	case <-time.After(deadline + grace):
		c.fail("the story has not returned %v after its context:\n%s", grace, goroutines())
		s.root.Close()
		s.B.Close()
		err = <-ended
	}
	took := time.Since(began)
	armed.Store(false)
	deadlined := errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(peer.Err(), context.DeadlineExceeded)
	cancelPeer()
	cancel()
	s.tasks.Wait()
	if first {
		c.err = err
	}
	c.judge(s, err, deadlined, took, first)

	time.Sleep(grace) // virtual time: what was left to the background is done
	if !s.lingers(first) {
		c.left(s, existed, first, "while the clients are open")
	}
	s.usable(first)
	for name, client := range map[string]*framework.Client{"A": s.root, "B": s.B} {
		began := time.Now()
		client.Close()
		if d := time.Since(began); d > closing {
			c.fail("Close of %s took %v", name, d)
		}
	}
	for _, client := range s.extra {
		client.Close()
	}
	time.Sleep(3 * sessionTimeout) // virtual time: all sessions have expired
	c.left(s, existed, first, "after Close")
	c.lines(s, first)
	for _, undo := range slices.Backward(s.undo) {
		undo()
	}
	synctest.Wait()
	if stacks := goroutines(); stacks != "" {
		c.fail("goroutines remain:\n%s", stacks)
	}
}

// lingers reports whether nodes may remain until the sessions have ended.
func (s *Scene) lingers(first bool) bool {
	return first && (s.condition.Lingers || s.cell.allowed.Lingers)
}

// usable requires that both clients work after the story.
func (s *Scene) usable(first bool) {
	if !first || s.condition.Server != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.B.Sync(ctx); err != nil {
		s.cell.fail("B is of no use after the story: %v", err)
	}
	if s.condition.Closes {
		return
	}
	if err := s.root.Sync(ctx); err != nil && !s.condition.allows(err) {
		s.cell.fail("A is of no use after the story: %v", err)
	}
}

// judge decides about the result of the story.
func (c *cell) judge(s *Scene, err error, deadlined bool, took time.Duration, first bool) {
	condition, allowed := s.condition, c.allowed
	if !first {
		condition, allowed = Condition{}, exception{}
		if c.condition.Server != nil || c.condition.Always { // the second round has them too
			condition.Allows, condition.Peers = c.condition.Allows, c.condition.Peers
		}
	}
	within := "the first round"
	if !first {
		within = "the second round"
	}
	var (
		panicked *panicError
		peer     *PeerError
	)
	named := condition.allows(err) || allowed.allows(err)
	switch {
	case err == nil:
	case errors.As(err, &panicked):
		if !condition.Panics {
			c.fail("%s: %v\n%s", within, err, panicked.stack)
		}
	case errors.As(err, &peer) && !condition.Peers && !allowed.Peers:
		c.fail("%s: another member is harmed: %v", within, err)
	case deadlined && !condition.Waits && !allowed.Waits:
		c.fail("%s: hangs: %v", within, err)
	case deadlined && !named && !allowed.Silent && len(c.journal.all()) == 0:
		c.fail("%s: hangs without a reason and without a line in the log: %v", within, err)
	case deadlined:
	case !named:
		c.fail("%s: unexpected error after %v: %v", within, took, err)
	}
}

// mine reports whether a path may remain: it existed before, it is a parent, or the story says so.
func (c *cell) mine(s *Scene, path string, existed map[string]bool, first bool) bool {
	if existed[path] {
		return true
	}
	dirs := c.story.dirs()
	for _, d := range dirs {
		if dir := s.Real(d); path == dir || strings.HasPrefix(dir, path+"/") {
			return true
		}
	}
	if strings.HasPrefix(s.real, path+"/") || path == s.real && c.story.None {
		return true
	}
	remains := c.story.Remains
	if first {
		remains = append(slices.Clone(remains), c.allowed.Leaves...)
		if s.condition.undeletable != "" {
			remains = append(remains, s.condition.undeletable)
		}
	}
	for _, r := range remains {
		pattern, rest := s.Real(r), false
		if pattern, rest = strings.CutSuffix(pattern, "*"); rest && strings.HasPrefix(path, pattern) || path == pattern {
			return true
		}
		if strings.HasPrefix(pattern, path+"/") {
			return true
		}
	}
	return false
}

// left requires that no node remains.
func (c *cell) left(s *Scene, existed map[string]bool, first bool, when string) {
	for _, m := range c.bed.members {
		m.ReapContainers()
	}
	for _, n := range c.server.Dump() {
		if !c.mine(s, n.Path, existed, first) {
			c.fail("a node remains %s: %s, owner 0x%x, after the error %v", when, n.Path, n.Owner, c.err)
		}
	}
}

// node reports whether a server has a node whose path begins with path, in any namespace.
func (c *cell) node(path string) bool {
	for _, m := range c.bed.members {
		if slices.ContainsFunc(m.Dump(), func(n zktest.Node) bool { return strings.Contains(n.Path, path) }) {
			return true
		}
	}
	return false
}

// lines requires that log lines are true, and that there are none without a disturbance.
func (c *cell) lines(s *Scene, first bool) {
	noisy := first && (s.condition.Noisy || c.allowed.Noisy)
	for _, l := range c.journal.all() {
		expected := l.client == "A" && s.disturbed.Load() && (l.text == "session lost" || strings.HasSuffix(l.text, " lost")) ||
			c.story.Logs != "" && l.text == c.story.Logs
		switch {
		case l.remains() && !l.remain && !(first && c.allowed.Noisy):
			c.fail("a log line is false: %v", l)
		case !noisy && !expected:
			c.fail("a log line without a disturbance: %v", l)
		}
	}
}

// guarded calls f and returns the error of Require, or a panic as an error. Observers recognize it
// on their stack.
func guarded(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case ending:
			err = p.err
		default:
			err = &panicError{p, string(debug.Stack())}
		}
	}()
	return f()
}

// onStory reports whether it is called on a goroutine of the story.
func onStory() bool {
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "matrix.guarded") {
			return true
		}
		if !more {
			return false
		}
	}
}

var buffers = sync.Pool{New: func() any { return new([1 << 20]byte) }}

// scenery marks goroutines of the servers and of the test.
var scenery = []string{"gocurator/curator/zktest", "testing.tRunner", "testing/synctest", "matrix.(*cell).run"}

// goroutines returns the stacks of the other goroutines of this bubble, but for the scenery.
func goroutines() string {
	buffer := buffers.Get().(*[1 << 20]byte)
	defer buffers.Put(buffer)
	all := string(buffer[:runtime.Stack(buffer[:], true)])
	own, rest, _ := strings.Cut(all, "\n\n")
	_, bubble, found := strings.Cut(strings.SplitN(own, "\n", 2)[0], "synctest bubble ")
	if !found {
		return ""
	}
	bubble = "synctest bubble " + strings.TrimRight(bubble, "]:")
	var of []string
	for _, g := range strings.Split(rest, "\n\n") {
		if head, _, _ := strings.Cut(g, "\n"); strings.Contains(head+"]", bubble+"]") || strings.Contains(head, bubble+",") {
			if slices.ContainsFunc(scenery, func(mark string) bool { return strings.Contains(g, mark) }) {
				continue
			}
			of = append(of, g)
		}
	}
	return strings.Join(of, "\n\n")
}
