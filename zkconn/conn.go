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
	// waitPerServer is how long an operation waits for a connection, per server: a little longer
	// than go-zookeeper's round over all servers.
	waitPerServer = 1500 * time.Millisecond

	// dialTimeout is how long one server may take to accept a connection, as in go-zookeeper.
	dialTimeout = time.Second

	// eventRoom is the capacity of the event channel. go-zookeeper's is 6, which one lost session
	// fills.
	eventRoom = 100
)

// Conn is a connection to a ZooKeeper ensemble with go-zookeeper's methods. The package comment
// describes the differences. All methods are safe for concurrent use.
//
// Operations wait until the Conn is connected. Each method lists its errors, which can be compared
// with ==. Invalid flags are the exception: their error wraps [ErrInvalidFlags], so use errors.Is.
type Conn struct {
	client *framework.Client
	once   *framework.Client // a view whose operations are sent once
	open   context.Context   // cancelled when Close begins
	stop   context.CancelFunc
	log    logger
	loop   sync.WaitGroup // goroutines that restore watches

	// Set by options, and not changed after Connect.
	dialer     Dialer
	hosts      HostProvider
	callback   EventCallback
	maxRequest int

	events chan Event
	wake   chan *engine.Watch // capacity 1: one of the watches in lost

	mu        sync.Mutex // guards what follows
	state     State
	server    string
	sessionID int64
	closing   bool    // Close has begun
	ended     bool    // events is closed
	calls     []Event // events for the callback
	calling   bool    // a goroutine calls it
	// lost contains the watches to be restored. It is nil after Close has stopped their goroutine.
	lost map[watchKey][]*waiter
}

// background is the context of all operations, which return when the client is closed.
var background = context.Background()

// Option configures a Conn. It is go-zookeeper's connOption, which is not exported.
type Option func(*Conn)

// WithDialer sets the function that opens connections. dialer receives an IP address and a port, or
// with [WithHostProvider] a result of Next. It must observe its timeout, which is one second.
func WithDialer(dialer Dialer) Option { return func(c *Conn) { c.dialer = dialer } }

// WithHostProvider sets the source of the servers' addresses. Next is called Len times before each
// round over the servers, which are tried in random order. The dialer receives the results of Next.
func WithHostProvider(hostProvider HostProvider) Option {
	return func(c *Conn) { c.hosts = hostProvider }
}

// WithLogger sets the Conn's logger. The default is [DefaultLogger].
func WithLogger(logger Logger) Option { return func(c *Conn) { c.SetLogger(logger) } }

// WithLogInfo sets whether every connect and disconnect is logged. If logInfo is false, only
// failures are logged. The default is true.
func WithLogInfo(logInfo bool) Option { return func(c *Conn) { c.log.setInfo(logInfo) } }

// WithEventCallback calls cb with each event, including events that the full event channel drops.
// Calls are in order and never overlap. cb may block and may use the Conn.
func WithEventCallback(cb EventCallback) Option { return func(c *Conn) { c.callback = cb } }

// WithMaxBufferSize has no effect. A reply may be up to 256 MB long.
func WithMaxBufferSize(int) Option { return func(*Conn) {} }

// WithMaxConnBufferSize limits the length of a request in bytes. The default is 1 MB less one byte,
// as in the servers, which close the connection on a longer request (jute.maxbuffer).
func WithMaxConnBufferSize(maxBufferSize int) Option {
	return func(c *Conn) { c.maxRequest = maxBufferSize }
}

// ConnectWithDialer connects to one of servers in the background, and returns at once. dialer opens
// the connections: see [WithDialer]. The channel receives events of the connection and of watches.
//
// The error is not nil only if an argument is invalid.
func ConnectWithDialer(servers []string, sessionTimeout time.Duration, dialer Dialer) (*Conn, <-chan Event, error) {
	return Connect(servers, sessionTimeout, WithDialer(dialer))
}

// Connect connects to one of servers in the background, and returns at once. Each server is
// host:port or host.
//
// The channel receives events of the connection and of watches. It buffers 100 events; when it is
// full, events are dropped. [Conn.Close] closes it.
//
// Host names are resolved at each connect, and all addresses of a name are tried.
//
// Errors are
//   - an error that describes the argument if an argument is invalid;
//   - the error that Init of the [HostProvider] returns.
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
		framework.WithErrorPolicy(connstate.LostEndsHold),
		framework.WithDialer(c.dial),
		framework.WithLogger(c.log.slog()),
		engine.Configure[framework.Option](func(cfg *engine.Config) {
			cfg.Events, cfg.AwaitHandshake = engine.Events{State: c.onState, Node: c.send}, true
		}),
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
	} else {
		// Each address of a name may be another member. A dialer would connect to the first that
		// accepts.
		opts = append(opts, framework.WithResolver(net.DefaultResolver.LookupHost))
	}
	for _, server := range servers {
		if strings.ContainsFunc(server, neverInAddress) {
			return nil, nil, fmt.Errorf("zk: server %q contains a character that is not allowed in an address", server)
		}
	}
	var err error
	if c.client, err = framework.New(servers, opts...); err != nil {
		return nil, nil, fmt.Errorf("zk: %w", err)
	}
	c.once = engine.Once(c.client)
	c.open, c.stop = context.WithCancel(context.Background())
	c.loop.Go(c.setAgain) // exits on Close
	return c, c.events, nil
}

// neverInAddress reports whether no host name contains the character, such as a separator of lists.
func neverInAddress(r rune) bool {
	return r <= ' ' || strings.ContainsRune("!\"#$&'()*+,;<=>?@\\^`{|}~", r)
}

// provided returns the servers of the host provider.
func (c *Conn) provided(context.Context) ([]string, error) {
	var servers []string
	for range c.hosts.Len() {
		if server, _ := c.hosts.Next(); !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
	}
	return servers, nil
}

// dial calls the dialer, which has no context.
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
	go func() { // exits when the dialer returns
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

// Close closes the session, which deletes its ephemeral nodes, and closes the event channel. All
// watches fire with an event of type [EventNotWatching].
//
// If no server replies, it returns after about a second. It may be called several times.
func (c *Conn) Close() {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	if !first {
		return
	}
	c.stop()
	_ = c.client.Close() // always nil
	c.loop.Wait()
	c.endWatches()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	close(c.events)
}

// Client returns the client of the Conn, on the same session, for programs that migrate step by
// step. Use [Conn.Close] to close it.
//
// Its operations are retried under the framework's default policy. It stores empty data for nil,
// where Conn stores null.
func (c *Conn) Client() *framework.Client { return c.client }

// State returns the state of the connection: [StateDisconnected], [StateConnecting],
// [StateConnected], [StateHasSession] or [StateExpired].
func (c *Conn) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// SessionID returns the id of the session, or 0 before the first session and after the session has
// expired.
func (c *Conn) SessionID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessionID
}

// Server returns the resolved address of the connected server, or of the last server tried.
func (c *Conn) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// SetLogger replaces the Conn's logger. A nil logger discards all lines.
func (c *Conn) SetLogger(l Logger) { c.log.set(l) }

// onState is called by the client on each state change of its connection.
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

// sendLocked sends an event. c.mu is held.
func (c *Conn) sendLocked(e Event) {
	if c.ended {
		return
	}
	select {
	case c.events <- e:
	default: // full: dropped, as by go-zookeeper
	}
	if c.callback == nil {
		return
	}
	c.calls = append(c.calls, e)
	if !c.calling {
		c.calling = true
		go c.call() // exits when calls is empty
	}
}

// call calls the callback with all events.
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
