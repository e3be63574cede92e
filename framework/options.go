package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/retry"
)

// Option configures a [Client]. [New] refuses bad values with [ErrBadArgument].
type Option func(*config) error

// config is what the options of a client add up to.
type config struct {
	engine.Config
	namespace   string
	data        []byte
	errorPolicy connstate.ErrorPolicy
	observers   []Observer
	observer    *Observer   // all of them, set by New; nil: nobody observes
	tls         *tls.Config // nil: no TLS
	tlsFiles    *tlsFiles   // nil: none
}

func defaults() config {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return config{
		data: []byte(host + ":" + strconv.Itoa(os.Getpid())),
		Config: engine.Config{
			SessionTimeout:    60 * time.Second,
			ConnectionTimeout: 15 * time.Second,
			Policy:            retry.ExponentialBackoff(100*time.Millisecond, 5),
			Containers:        true,
			ExpirationPercent: 100,
			Log:               slog.New(slog.DiscardHandler),
			Nudges:            true,
			MaxRequest:        1<<20 - 1,
			Events:            engine.Events{State: func(zk.State, string, int64) {}, Node: func(zk.Event) {}},
		},
	}
}

// WithSessionTimeout asks the servers for this session timeout. They may grant less or more (by default 2 to
// 20 of their ticks, 4 s to 40 s): see [Session.Timeout]. More than d counts only up to ten minutes. d must be at least a millisecond and less than 2^31
// of them. The default is 60 s, as in Curator.
func WithSessionTimeout(d time.Duration) Option {
	return opt.Checked(d >= time.Millisecond && d.Milliseconds() <= 1<<31-1, func(c *config) { c.SessionTimeout = d }, "session timeout %v", d)
}

// WithConnectionTimeout limits how long each attempt of an operation waits for a
// connection, when there is none, before it counts as failed. It must be positive.
// The default is 15 s, as in Curator.
func WithConnectionTimeout(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *config) { c.ConnectionTimeout = d }, "connection timeout %v", d)
}

// minMaxRequest leaves room for the requests that keep a session alive.
const minMaxRequest = 1 << 10

// WithMaxRequest sets how many bytes a request may have, paths, data and ACLs included. A longer one is not sent, and fails
// with [ErrTooLong]. It must not be more than what the servers take (jute.maxbuffer): they hang up on a longer request,
// and then everything that uses the client loses its connection. It must be at least 1024, and less than 2^31. The default
// is 0xfffff, 1 MB less one byte, which is that of the servers and of Java's client.
func WithMaxRequest(bytes int) Option {
	return opt.Checked(bytes >= minMaxRequest && bytes <= math.MaxInt32, func(c *config) { c.MaxRequest = bytes }, "max request %d is not in 1024..2^31-1", bytes)
}

// WithRetryPolicy says how often and with which pauses operations are repeated
// when [retry.Retryable] allows it. The default is
// retry.ExponentialBackoff(100*time.Millisecond, 5).
func WithRetryPolicy(p retry.Policy) Option {
	return opt.Checked(p != nil, func(c *config) { c.Policy = p }, "nil retry policy")
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

// WithACLProvider sets what returns the ACL of nodes that are created without one, parents included. path is the path on the
// server, namespace included. acl must be safe for concurrent use. nil, and the default, give everyone all rights. It is
// Curator's ACLProvider.
func WithACLProvider(acl func(path string) []zk.ACL) Option {
	return opt.Checked(acl != nil, func(c *config) { c.ACL = acl }, "nil ACL provider")
}

// WithDialer sets how connections are opened, such as by [zktest.Server.DialContext] in a test. dial is like
// [net.Dialer.DialContext], which is the default. It must return when ctx is done, or [Client.Close] waits for it.
//
// dial is called with the names of servers, and finds their addresses itself, or a proxy does. If several members are behind one
// name, and dial connects to the first one that accepts, the others are never tried: give [WithResolver] as well.
//
// [zktest.Server.DialContext]: https://pkg.go.dev/github.com/gocurator/curator/zktest#Server.DialContext
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return opt.Checked(dial != nil, func(c *config) { c.Dial = dial }, "nil dialer")
}

// WithResolver sets how host names of servers are resolved: resolve returns the IP addresses of a name, like
// [net.Resolver.LookupHost], and must return when ctx is done. All addresses of a name are tried, one after the other in random
// order, since there may be a member of the ensemble behind each. Names are resolved again in each round over all servers. The
// default is [net.DefaultResolver], or, with [WithDialer], that the dialer resolves names. With TLS the name is what the
// certificate must be for.
//
//	framework.WithResolver(resolver.LookupHost), framework.WithDialer((&net.Dialer{KeepAlive: time.Minute}).DialContext)
func WithResolver(resolve func(ctx context.Context, host string) ([]string, error)) Option {
	return opt.Checked(resolve != nil, func(c *config) { c.Resolve = resolve }, "nil resolver")
}

// WithTLS speaks TLS on top of the dialer's connections. If conf has no
// ServerName, the host part of the server's address is used. For files that are renewed see [WithTLSFiles].
func WithTLS(conf *tls.Config) Option {
	return opt.Checked(conf != nil, func(c *config) { c.tls = conf.Clone() }, "nil TLS configuration")
}

// WithTLSFiles is [WithTLS] with PEM files, which are read again for each connection, so that certificates can be renewed while
// the client runs. ca has the authorities of the servers' certificates; if it is empty, the system's count. cert and key are the
// client's certificate and its key, or both empty. Other settings may come from WithTLS, given before or after it.
//
// Connections that exist stay as they are. If a file cannot be read, or cert and key do not belong together, as while they
// are being replaced, the client uses what it has read last, and logs that at Warn. [New] refuses such files with
// [ErrBadArgument].
func WithTLSFiles(ca, cert, key string) Option {
	return func(c *config) error {
		if (cert == "") != (key == "") {
			return fmt.Errorf("%w: TLS files: certificate and key go together", ErrBadArgument)
		}
		c.tlsFiles = &tlsFiles{ca: ca, cert: cert, key: key}
		if c.tls == nil {
			c.tls = new(tls.Config)
		}
		if err := c.tlsFiles.read(); err != nil {
			return fmt.Errorf("%w: TLS files: %w", ErrBadArgument, err)
		}
		return nil
	}
}

// tlsConfig is the configuration for a connection to host.
func (c *config) tlsConfig(host string) *tls.Config {
	conf := c.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName = host
	}
	if f := c.tlsFiles; f != nil {
		if err := f.read(); err != nil {
			c.Log.Warn("TLS files cannot be used, the last ones are", "reason", err)
		}
		if f.roots != nil {
			conf.RootCAs = f.roots
		}
		if f.pairs != nil {
			conf.Certificates = f.pairs
		}
	}
	return conf
}

// WithServerList takes the servers from list instead of the fixed list given to [New], which must then be empty. list returns
// them as host:port or host (port 2181). It is called again before each round over all servers, so it may follow DNS or a
// registry. It must return when ctx is done. It is Curator's EnsembleProvider.
func WithServerList(list func(ctx context.Context) ([]string, error)) Option {
	return opt.Checked(list != nil, func(c *config) { c.Servers = list }, "nil server list")
}

// WithDefaultData sets what nodes hold that are created without data of their own. The default is "host:pid", for people who look at a
// queue. nil is empty data: Java's recipes fail on a node that has none.
func WithDefaultData(data []byte) Option {
	return opt.Set(func(c *config) { c.data = append([]byte{}, data...) })
}

// WithoutContainers makes parents persistent nodes even where containers were asked for.
func WithoutContainers() Option {
	return opt.Set(func(c *config) { c.Containers = false })
}

// WithErrorPolicy sets which connection states end a hold, for recipes that are not
// given another policy. The default is [connstate.Standard]: a suspended connection does.
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	return opt.Checked(p == connstate.Standard || p == connstate.Session, func(c *config) { c.errorPolicy = p }, "error policy %v", p)
}

// WithExpirationPercent declares the session lost when this part of its timeout has passed without a
// confirmation, 50 to 100. The default is 100. With less, the client confirms the session with the leader all
// the time, and more often, so that it is not lost while all is well. It is Curator's
// simulatedSessionExpirationPercent, which counts from the loss of the connection.
func WithExpirationPercent(percent int) Option {
	return opt.Checked(percent >= 50 && percent <= 100, func(c *config) { c.ExpirationPercent = percent }, "expiration percent %d is not in 50..100", percent)
}

// WithLogger sets where the client and its recipes log: states at Info, the loss of a session or of a lock and
// failures in the background at Warn, a function that panics at Error if it was given to Listen, a watch or a cache, servers that cannot
// be used at Debug. By default nothing is logged.
func WithLogger(log *slog.Logger) Option {
	return opt.Checked(log != nil, func(c *config) { c.Log = log }, "nil logger")
}

// WithObserver reports to o what the client and its recipes do. It may be given several times: the observers
// are called one after the other, in the order given. Without it observing costs nothing.
func WithObserver(o Observer) Option {
	return opt.Set(func(c *config) { c.observers = append(c.observers, o) })
}

// WithEnsembleTracking makes the client follow the ensemble when it is reconfigured: it reads the
// configuration that the servers keep (/zookeeper/config, or /keeper/config of ClickHouse Keeper), watches
// it, and connects to the servers that it names. If none of those can be used, it tries the servers that
// it was made with, in turns. The default is off. It is Curator's EnsembleTracker.
//
// An address that only says "all interfaces" (0.0.0.0 or [::]) stands for the host of its server.
// With TLS, and with Keeper, the configuration does not name the port. Then all servers that the client was made
// with must have the same port, or the configuration is ignored. If the client may not read it, that is logged
// once a minute.
func WithEnsembleTracking() Option {
	return opt.Set(func(c *config) { c.Tracking = true })
}
