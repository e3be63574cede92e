package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
)

const (
	// waitPerServer is how long an operation waits for a connection, for each server: a little longer than
	// go-zookeeper's round over all servers.
	waitPerServer = 1500 * time.Millisecond

	// dialTimeout is how long one server may take to accept a connection, as in go-zookeeper.
	dialTimeout = time.Second

	// eventRoom is how many events wait for a reader of the event channel. go-zookeeper has room for 6: one lost
	// session fills it.
	eventRoom = 100
)

// Conn is a connection to a ZooKeeper ensemble with go-zookeeper's methods. The package comment says what differs.
//
// Operations wait for a connection if there is none. Errors of operations are values to compare with ==:
//   - [ErrNoServer]: no server was reached in time, and nothing was sent;
//   - [ErrConnectionClosed]: the connection was lost before the answer came, or the Conn was closed;
//   - [ErrSessionExpired]: the session has ended meanwhile;
//   - [ErrInvalidPath], [ErrInvalidACL], [ErrBadArguments], [ErrShortBuffer] (the request is too long): nothing was sent;
//   - what a server has answered, such as [ErrNoNode], [ErrNodeExists], [ErrBadVersion], [ErrNotEmpty] and [ErrNoAuth].
//
// Wrong flags are an error that wraps [ErrInvalidFlags].
//
// All methods are safe for concurrent use.
type Conn struct {
	client *framework.Client
	open   context.Context // ends when Close begins
	stop   context.CancelFunc
	log    logger
	loop   sync.WaitGroup // the goroutine that sets watches again

	// Set by options, and not changed after Connect.
	dialer     Dialer
	hosts      HostProvider
	callback   EventCallback
	maxRequest int

	events chan Event
	wake   chan *engine.Watch // capacity 1: one of those in lost

	mu        sync.Mutex // guards what follows
	state     State
	server    string
	sessionID int64
	closing   bool                   // Close has begun
	ended     bool                   // events is closed
	calls     []Event                // that callback was not called with yet
	calling   bool                   // a goroutine does that
	lost      map[watchKey][]*waiter // watches to be set again; nil when there is nobody to do that any more
}

// once is for operations that are sent once, and repeated for others. They end with the client, as all operations do.
var (
	repeated = context.Background()
	once     = engine.WithHints(repeated, engine.Hints{Once: true})
)

// Option configures a Conn, as go-zookeeper's unexported connOption.
type Option func(*Conn)

// WithDialer sets how connections are opened. The dialer is given an IP address and a port, except with [WithHostProvider], and a timeout
// of one second, which it must keep.
func WithDialer(dialer Dialer) Option { return func(c *Conn) { c.dialer = dialer } }

// WithHostProvider sets what names the servers to connect to. Before each round over the servers Next is called Len times.
// The servers of a round are tried in random order. The dialer is given what Next returns.
func WithHostProvider(hostProvider HostProvider) Option {
	return func(c *Conn) { c.hosts = hostProvider }
}

// WithLogger sets where the Conn logs. The default is [DefaultLogger].
func WithLogger(logger Logger) Option { return func(c *Conn) { c.SetLogger(logger) } }

// WithLogInfo sets whether connections and their ends are logged, which is the default, or only what went wrong.
func WithLogInfo(logInfo bool) Option { return func(c *Conn) { c.log.setInfo(logInfo) } }

// WithEventCallback has cb called with each event that goes to the event channel, in order, one at a time, and also with
// those for which the channel had no room. cb may block and may use the Conn.
func WithEventCallback(cb EventCallback) Option { return func(c *Conn) { c.callback = cb } }

// WithMaxBufferSize has no effect. A reply may have 256 MB.
func WithMaxBufferSize(int) Option { return func(*Conn) {} }

// WithMaxConnBufferSize sets how many bytes a request may have, 1 MB less one byte by default. Servers hang up on longer ones
// unless they are configured otherwise (jute.maxbuffer).
func WithMaxConnBufferSize(maxBufferSize int) Option {
	return func(c *Conn) { c.maxRequest = maxBufferSize }
}

// ConnectWithDialer is [Connect] with [WithDialer].
func ConnectWithDialer(servers []string, sessionTimeout time.Duration, dialer Dialer) (*Conn, <-chan Event, error) {
	return Connect(servers, sessionTimeout, WithDialer(dialer))
}

// Connect begins to connect to one of servers, which are host:port or host, and returns at once. Operations wait for the
// connection. Events of the connection and of watches go to the channel, which holds 100; what does not fit is left out. The channel
// is closed by [Conn.Close].
//
// An error means that an argument is not valid. Names of hosts are resolved later, each time a connection is made, and all addresses
// of a name are tried.
func Connect(servers []string, sessionTimeout time.Duration, options ...Option) (*Conn, <-chan Event, error) {
	c := &Conn{
		events: make(chan Event, eventRoom),
		wake:   make(chan *engine.Watch, 1),
		lost:   make(map[watchKey][]*waiter),
	}
	c.log.set(DefaultLogger)
	c.log.setInfo(true)
	for _, option := range options {
		option(c)
	}
	opts := []framework.Option{
		framework.WithSessionTimeout(sessionTimeout),
		framework.WithConnectionTimeout(max(time.Duration(len(servers)), 1) * waitPerServer),
		framework.WithErrorPolicy(connstate.Session),
		framework.WithDialer(c.dial),
		framework.WithLogger(c.log.slog()),
		engine.Configure[framework.Option](func(cfg *engine.Config) { cfg.Events = engine.Events{State: c.onState, Node: c.send} }),
	}
	if c.maxRequest != 0 {
		opts = append(opts, framework.WithMaxRequest(c.maxRequest))
	}
	if len(servers) == 0 {
		return nil, nil, errors.New("zk: server list must not be empty")
	}
	if c.hosts != nil {
		if err := c.hosts.Init(FormatServers(servers)); err != nil {
			return nil, nil, err
		}
		opts = append(opts, framework.WithServerList(c.provided))
		servers = nil
	} else { // there may be a member behind each address of a name, and a dialer connects to the first that accepts
		opts = append(opts, framework.WithResolver(net.DefaultResolver.LookupHost))
	}
	for _, server := range servers {
		if strings.ContainsFunc(server, neverInAddress) {
			return nil, nil, fmt.Errorf("zk: server %q has a character that no address has", server)
		}
	}
	var err error
	if c.client, err = framework.New(servers, opts...); err != nil {
		return nil, nil, fmt.Errorf("zk: %w", err)
	}
	c.open, c.stop = context.WithCancel(context.Background())
	c.loop.Go(c.setAgain) // ends with Close
	return c, c.events, nil
}

// neverInAddress is for what no resolver takes for the name of a host, and for separators of lists.
func neverInAddress(r rune) bool {
	return r <= ' ' || strings.ContainsRune("!\"#$&'()*+,;<=>?@\\^`{|}~", r)
}

// provided is the server list that the host provider gives.
func (c *Conn) provided(context.Context) ([]string, error) {
	var servers []string
	for range c.hosts.Len() {
		if server, _ := c.hosts.Next(); !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
	}
	return servers, nil
}

// dial calls the dialer, which knows no context.
func (c *Conn) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.dialer == nil {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	type result struct {
		nc  net.Conn
		err error
	}
	dialed := make(chan result)
	go func() { // ends when the dialer returns
		nc, err := c.dialer(network, address, dialTimeout)
		select {
		case dialed <- result{nc, err}:
		case <-ctx.Done():
			if err == nil {
				_ = nc.Close()
			}
		}
	}()
	select {
	case r := <-dialed:
		return r.nc, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the session, which deletes its ephemeral nodes, closes the event channel, and ends all watches with an event of type
// [EventNotWatching]. If no server answers, it returns after about a second. It may be called again.
func (c *Conn) Close() {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	if !first {
		return
	}
	c.stop()
	_ = c.client.Close() // it is always nil
	c.loop.Wait()
	c.endWatches()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	close(c.events)
}

// Client is the client that the Conn is made of, for programs that migrate step by step: it shares the session. Its operations
// are repeated under the framework's default policy, and nil data are the default data that [framework.WithDefaultData] describes.
// Use [Conn.Close] to close it.
func (c *Conn) Client() *framework.Client { return c.client }

// State is the state of the connection: [StateDisconnected], [StateConnecting], [StateConnected], [StateHasSession] or
// [StateExpired].
func (c *Conn) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// SessionID is the id of the session, and 0 while there is none.
func (c *Conn) SessionID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessionID
}

// Server is the address of the server that the Conn is connected to or has last tried. A name that was given to [Connect] is resolved.
func (c *Conn) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// SetLogger sets where the Conn logs.
func (c *Conn) SetLogger(l Logger) { c.log.set(l) }

// onState is called by the client with each step of its connection.
func (c *Conn) onState(state zk.State, server string, session int64) {
	if state == StateHasSession && c.hosts != nil {
		c.hosts.Connected()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	repeated := state == StateDisconnected && c.state == StateDisconnected
	c.state = state
	switch state {
	case StateConnecting:
		c.server = server
	case StateHasSession:
		c.sessionID = session
	case StateExpired:
		c.sessionID = 0
	}
	if !repeated {
		c.sendLocked(Event{Type: EventSession, State: state, Server: c.server})
	}
}

// send passes an event to the channel and to the callback. It does not block.
func (c *Conn) send(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendLocked(e)
}

// sendLocked is send. c.mu is held.
func (c *Conn) sendLocked(e Event) {
	if c.ended {
		return
	}
	select {
	case c.events <- e:
	default: // as go-zookeeper does
	}
	if c.callback == nil {
		return
	}
	c.calls = append(c.calls, e)
	if !c.calling {
		c.calling = true
		go c.call() // ends when there is no event left
	}
}

// call calls the callback.
func (c *Conn) call() {
	for {
		c.mu.Lock()
		if len(c.calls) == 0 {
			c.calling = false
			c.mu.Unlock()
			return
		}
		e := c.calls[0]
		c.calls = c.calls[1:]
		c.mu.Unlock()
		c.callback(e)
	}
}
