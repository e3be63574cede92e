package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/retry"
)

// Option configures a [Client]. [New] refuses bad values with [ErrBadArgument].
type Option func(*config) error

type config struct {
	servers           ServerList
	sessionTimeout    time.Duration
	connectionTimeout time.Duration
	policy            retry.Policy
	namespace         string
	acl               ACLProvider
	auths             []conn.Auth
	sasl              SASL // nil: none
	data              []byte
	containers        bool
	tracking          bool
	errorPolicy       connstate.ErrorPolicy
	expirationPercent int
	log               *slog.Logger
	observers         []Observer
	requests          requests
	events            clientapi.Events
	dialing
}

// dialing is how connections are opened.
type dialing struct {
	dial     DialFunc
	resolve  ResolveFunc // nil: the dialer resolves names
	tls      *tls.Config // nil: no TLS
	tlsFiles *tlsFiles   // nil: none
}

// requests are how a connection sends requests.
type requests struct {
	nudges    bool
	maxLength int
}

// ACLProvider returns the ACL of a node that is created without one. path is the
// path on the server, namespace included. nil means that everyone may do
// everything. It must be safe for concurrent use. It is Curator's ACLProvider.
type ACLProvider func(path string) []zk.ACL

// DialFunc opens a connection, like [net.Dialer.DialContext] and
// [tls.Dialer.DialContext]. It must return when ctx is done, or [Client.Close] waits for it.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func defaults() config {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return config{
		sessionTimeout:    60 * time.Second,
		connectionTimeout: 15 * time.Second,
		policy:            retry.ExponentialBackoff(100*time.Millisecond, 5),
		data:              []byte(host + ":" + strconv.Itoa(os.Getpid())),
		containers:        true,
		expirationPercent: 100,
		log:               slog.New(slog.DiscardHandler),
		requests:          requests{nudges: true, maxLength: 1<<20 - 1},
		events:            clientapi.Events{State: func(zk.State, string, int64) {}, Node: func(zk.Event) {}},
	}
}

// WithSessionTimeout asks the servers for this session timeout. They may grant less or more (by default 2 to
// 20 of their ticks, 4 s to 40 s): see [Session.Timeout]. More than d counts only up to ten minutes. d must be at least a millisecond and less than 2^31
// of them. The default is 60 s, as in Curator.
func WithSessionTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d < time.Millisecond || d.Milliseconds() > 1<<31-1 {
			return fmt.Errorf("%w: session timeout %v", ErrBadArgument, d)
		}
		c.sessionTimeout = d
		return nil
	}
}

// WithConnectionTimeout limits how long each attempt of an operation waits for a
// connection, when there is none, before it counts as failed. It must be positive.
// The default is 15 s, as in Curator.
func WithConnectionTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("%w: connection timeout %v", ErrBadArgument, d)
		}
		c.connectionTimeout = d
		return nil
	}
}

// minMaxRequest leaves room for the requests that keep a session alive.
const minMaxRequest = 1 << 10

// WithMaxRequest sets how many bytes a request may have, paths, data and ACLs included. A longer one is not sent, and fails
// with [ErrTooLong]. It must not be more than what the servers take (jute.maxbuffer): they hang up on a longer request,
// and then everything that uses the client loses its connection. It must be at least 1024, and less than 2^31. The default
// is 0xfffff, 1 MB less one byte, which is that of the servers and of Java's client.
func WithMaxRequest(bytes int) Option {
	return func(c *config) error {
		if bytes < minMaxRequest || bytes > math.MaxInt32 {
			return fmt.Errorf("%w: max request %d is not in 1024..2^31-1", ErrBadArgument, bytes)
		}
		c.requests.maxLength = bytes
		return nil
	}
}

// WithRetryPolicy says how often and with which pauses operations are repeated
// when [retry.Retryable] allows it. The default is
// retry.ExponentialBackoff(100*time.Millisecond, 5).
func WithRetryPolicy(p retry.Policy) Option {
	return func(c *config) error {
		if p == nil {
			return fmt.Errorf("%w: nil retry policy", ErrBadArgument)
		}
		c.policy = p
		return nil
	}
}

// WithNamespace puts all paths of the client below "/"+ns. Paths in results,
// events and errors come without it. ns must not begin with a slash; empty means none.
// The first [Client.Create] directly below it creates the node of the namespace; until then reads fail with
// zk.ErrNoNode. If ns cannot be part of a path, the error is [ErrBadPath].
func WithNamespace(ns string) Option {
	return func(c *config) error {
		c.namespace = ns
		return validateNamespace(ns)
	}
}

// WithACLProvider sets what returns the ACL of nodes that are created
// without one, parents included. The default gives everyone all rights.
func WithACLProvider(p ACLProvider) Option {
	return func(c *config) error {
		if p == nil {
			return fmt.Errorf("%w: nil ACL provider", ErrBadArgument)
		}
		c.acl = p
		return nil
	}
}

// WithDialer sets how connections are opened, such as by [zktest.Server.DialContext] in a test. The default is
// a [net.Dialer].
//
// dial is called with the names of servers, and finds their addresses itself, or a proxy does. If several members are behind one
// name, and dial connects to the first one that accepts, the others are never tried: give [WithResolver] as well.
//
// [zktest.Server.DialContext]: https://pkg.go.dev/github.com/gocurator/curator/zktest#Server.DialContext
func WithDialer(dial DialFunc) Option {
	return func(c *config) error {
		if dial == nil {
			return fmt.Errorf("%w: nil dialer", ErrBadArgument)
		}
		c.dial = dial
		return nil
	}
}

// WithResolver sets how host names of servers are resolved. All addresses of a name are tried, one after the other in random
// order, since there may be a member of the ensemble behind each. Names are resolved again in each round over all servers. The
// default is [net.DefaultResolver], or, with [WithDialer], that the dialer resolves names. With TLS the name is what the
// certificate must be for.
//
//	framework.WithResolver(resolver.LookupHost), framework.WithDialer((&net.Dialer{KeepAlive: time.Minute}).DialContext)
func WithResolver(resolve ResolveFunc) Option {
	return func(c *config) error {
		if resolve == nil {
			return fmt.Errorf("%w: nil resolver", ErrBadArgument)
		}
		c.resolve = resolve
		return nil
	}
}

// WithTLS speaks TLS on top of the dialer's connections. If conf has no
// ServerName, the host part of the server's address is used. For files that are renewed see [WithTLSFiles].
func WithTLS(conf *tls.Config) Option {
	return func(c *config) error {
		if conf == nil {
			return fmt.Errorf("%w: nil TLS configuration", ErrBadArgument)
		}
		c.tls = conf.Clone()
		return nil
	}
}

// WithServerList takes the servers from list instead of the fixed list given
// to [New], which must then be empty. It is Curator's EnsembleProvider.
func WithServerList(list ServerList) Option {
	return func(c *config) error {
		if list == nil {
			return fmt.Errorf("%w: nil server list", ErrBadArgument)
		}
		c.servers = list
		return nil
	}
}

// WithDefaultData sets what nodes hold that are created without data of their
// own. The default is "host:pid", for people who look at a queue.
func WithDefaultData(data []byte) Option {
	return func(c *config) error {
		c.data = slices.Clone(data)
		return nil
	}
}

// WithoutContainers makes parents persistent nodes even where containers were asked for.
func WithoutContainers() Option {
	return func(c *config) error {
		c.containers = false
		return nil
	}
}

// WithErrorPolicy sets which connection states end a hold, for recipes that are not
// given another policy. The default is [connstate.Standard]: a suspended connection does.
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	return func(c *config) error {
		if p != connstate.Standard && p != connstate.Session {
			return fmt.Errorf("%w: error policy %v", ErrBadArgument, p)
		}
		c.errorPolicy = p
		return nil
	}
}

// WithExpirationPercent declares the session lost when this part of its timeout has passed without a
// confirmation, 50 to 100. The default is 100. With less, the client confirms the session with the leader all
// the time, and more often, so that it is not lost while all is well. It is Curator's
// simulatedSessionExpirationPercent, which counts from the loss of the connection.
func WithExpirationPercent(percent int) Option {
	return func(c *config) error {
		if percent < 50 || percent > 100 {
			return fmt.Errorf("%w: expiration percent %d is not in 50..100", ErrBadArgument, percent)
		}
		c.expirationPercent = percent
		return nil
	}
}

// WithLogger sets where the client and its recipes log: states at Info, the loss of a session or of a lock and
// failures in the background at Warn, a listener or a watch function that panics at Error, servers that cannot be used at Debug. By
// default nothing is logged.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) error {
		if log == nil {
			return fmt.Errorf("%w: nil logger", ErrBadArgument)
		}
		c.log = log
		return nil
	}
}

// WithObserver reports to o what the client and its recipes do. It may be given several times: the observers
// are called one after the other, in the order given. Without it observing costs nothing.
func WithObserver(o Observer) Option {
	return func(c *config) error {
		c.observers = append(c.observers, o)
		return nil
	}
}
