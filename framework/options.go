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
	"github.com/gocurator/curator/internal/gzipped"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/retry"
)

// Option configures a [Client]. [New] refuses invalid values with [ErrBadArgument].
type Option func(*config) error

// config contains the options of a client.
type config struct {
	engine.Config
	namespace string
	observers []Observer
	tls       *tls.Config // nil: no TLS
	tlsFiles  *tlsFiles   // nil: none
}

func defaults() config {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return config{
		Config: engine.Config{
			SessionTimeout:    60 * time.Second,
			ConnectionTimeout: 15 * time.Second,
			Policy:            retry.ExponentialBackoff(100*time.Millisecond, 5),
			Containers:        true,
			Data:              []byte(host + ":" + strconv.Itoa(os.Getpid())),
			ExpirationPercent: 100,
			Log:               slog.New(slog.DiscardHandler),
			Nudges:            true,
			MaxRequest:        1<<20 - 1,
			MaxDecoded:        gzipped.MaxDecoded,
			Events:            engine.Events{State: func(zk.State, string, int64) {}, Node: func(zk.Event) {}},
		},
	}
}

// WithSessionTimeout requests a session timeout between 1 and 2^31-1 milliseconds. The default is
// 60 s, as in Curator. The servers may grant another timeout: see [Session.Timeout].
//
// By default they limit it to 2 to 20 of their ticks, which is 4 s to 40 s.
//
// A granted timeout above d is trusted for ten minutes at most. Writes must be committed within
// 12 % of the granted timeout: see the package comment, under Sessions.
func WithSessionTimeout(d time.Duration) Option {
	return opt.Checked(d >= time.Millisecond && d.Milliseconds() <= 1<<31-1, func(c *config) { c.SessionTimeout = d }, "session timeout %v, must be 1ms to 2^31-1 ms", d)
}

// WithConnectionTimeout limits how long each attempt of an operation waits for a connection. d must
// be positive. The default is 15 s, as in Curator.
func WithConnectionTimeout(d time.Duration) Option {
	return opt.Checked(d > 0, func(c *config) { c.ConnectionTimeout = d }, "connection timeout %v, must be positive", d)
}

// minMaxRequest leaves room for the requests that maintain a session.
const minMaxRequest = 1 << 10

// WithMaxRequest limits the length of a request to n bytes, between 1024 and 2^31-1. A longer
// request is not sent, and fails with [ErrTooLong]. The default is 0xfffff, one byte less than 1
// MB, as in the servers and in Java's client.
//
// The limit must not exceed the servers' jute.maxbuffer: they close the connection on a longer
// request.
func WithMaxRequest(bytes int) Option {
	return opt.Checked(bytes >= minMaxRequest && bytes <= math.MaxInt32, func(c *config) { c.MaxRequest = bytes }, "max request %d, must be 1024 to 2^31-1", bytes)
}

// WithRetryPolicy sets the policy for retries of an operation whose reply was lost, whose request
// could not be sent, or which the server refused temporarily. The default is
// retry.ExponentialBackoff(100*time.Millisecond, 5).
func WithRetryPolicy(p retry.Policy) Option {
	return opt.Checked(p != nil, func(c *config) { c.Policy = p }, "nil retry policy")
}

// WithNamespace puts all paths of the client below "/"+ns. Paths in results, events and errors do
// not contain it. If ns is empty, there is no namespace.
//
// The first [Client.Create] directly below the namespace creates its node; until then reads fail
// with zk.ErrNoNode.
//
// [New] refuses the namespace
//   - with [ErrBadArgument] if ns begins with a slash;
//   - with [ErrBadPath] if ZooKeeper does not allow one of its elements.
func WithNamespace(ns string) Option {
	return func(c *config) error {
		c.namespace = ns
		return validateNamespace(ns)
	}
}

// WithACLProvider sets the function that returns the ACL of nodes that are created without an ACL,
// parents included. path is the path on the server, with the namespace. acl must be safe for
// concurrent use.
//
// By default, and if acl returns an empty ACL, every client has all rights. It is Curator's
// ACLProvider.
func WithACLProvider(acl func(path string) []zk.ACL) Option {
	return opt.Checked(acl != nil, func(c *config) { c.ACL = acl }, "nil ACL provider")
}

// WithDialer sets the function that opens connections, for example a zktest.Server's DialContext.
// The default is [net.Dialer.DialContext]. dial must return when ctx is done: [Client.Close] waits
// for it.
//
// dial must resolve the names of servers. If several members share one name and dial always
// connects to the first that accepts, the others are never tried: add [WithResolver].
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return opt.Checked(dial != nil, func(c *config) { c.Dial = dial }, "nil dialer")
}

// WithResolver sets the function that resolves host names of servers. The client calls it in each
// round over all servers, and tries all addresses of a name in random order. resolve has the
// contract of [net.Resolver.LookupHost], and must return when ctx is done.
//
// The default is [net.DefaultResolver]. With [WithDialer], the dialer resolves names by default.
// With TLS the certificate must be valid for the host name.
//
//	dialer := &net.Dialer{KeepAlive: time.Minute}
//	framework.WithResolver(resolver.LookupHost), framework.WithDialer(dialer.DialContext)
func WithResolver(resolve func(ctx context.Context, host string) ([]string, error)) Option {
	return opt.Checked(resolve != nil, func(c *config) { c.Resolve = resolve }, "nil resolver")
}

// WithTLS runs TLS over the dialer's connections. If conf has no ServerName, the host part of the
// server's address is used. For files that are renewed see [WithTLSFiles].
func WithTLS(conf *tls.Config) Option {
	return opt.Checked(conf != nil, func(c *config) { c.tls = conf.Clone() }, "nil TLS configuration")
}

// WithTLSFiles runs TLS over the dialer's connections, with PEM files. The client reads the files
// for each connection, so certificates can be renewed while it runs. To set other TLS parameters,
// also pass [WithTLS], in any order.
//
// If ca is empty, the system's authorities are trusted. cert and key may both be empty.
//
// If a file cannot be read, or cert does not match key, the client keeps the previous files and
// logs a warning. [New] refuses such files with [ErrBadArgument]. Existing connections are not
// affected.
func WithTLSFiles(ca, cert, key string) Option {
	return func(c *config) error {
		if (cert == "") != (key == "") {
			return fmt.Errorf("%w: TLS files: certificate %q and key %q must be set together", ErrBadArgument, cert, key)
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

// tlsConfig returns the configuration of a connection to host.
func (c *config) tlsConfig(host string) *tls.Config {
	conf := c.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName = host
	}
	if f := c.tlsFiles; f != nil {
		if err := f.read(); err != nil {
			c.Log.Warn("TLS files cannot be used, keeping the previous ones", "reason", err)
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

// WithServerList sets the function that returns the servers. The servers argument of [New] must
// then be empty. It is Curator's EnsembleProvider.
//
// list returns host:port or host (port 2181), and must return when ctx is done. The client calls
// list before each round over all servers, so list may query DNS or a registry.
func WithServerList(list func(ctx context.Context) ([]string, error)) Option {
	return opt.Checked(list != nil, func(c *config) { c.Servers = list }, "nil server list")
}

// WithDefaultData sets the data of the nodes that recipes create without other data: locks,
// elections, barriers and kept nodes. The default is "host:pid", which identifies the owner. nil is
// empty data, never null, because Java's recipes fail on null.
//
// [Client.Create] does not use it: there nil is empty data. compressed.Create does.
func WithDefaultData(data []byte) Option {
	return opt.Set(func(c *config) { c.Data = append([]byte{}, data...) })
}

// WithCompression compresses written data with gzip and decompresses read data, in every operation,
// recipe and cache and in service discovery. Either all clients of the same nodes, in Java and in
// Go, must compress, or none of them. It is enableCompression() of Curator 5.8 and newer.
//
// Reads of uncompressed or empty data fail with [ErrNotCompressed]. Data of more than 16 MB fail
// with [ErrTooLarge]: see [WithMaxDecompressed]. A cache includes nodes without data, such as
// parents. It omits other nodes that cannot be decompressed, and their descendants.
//
// Missing parents are created without data. Limits of data, such as the limit of node.Keep, count
// uncompressed bytes. The DataLength of a stat counts stored bytes.
func WithCompression() Option { return opt.Set(func(c *config) { c.Compress = true }) }

// WithMaxDecompressed limits decompressed data to n bytes, between 1024 and 2^31-1. The default is
// 16 MB. Longer data are neither written nor read, and fail with [ErrTooLarge].
//
// The limit bounds the memory that a node of another client can take: 1 MB can contain 1 GB. It
// applies to a client [WithCompression], to functions of package framework/compressed that have a
// client, and to package modeled.
func WithMaxDecompressed(bytes int) Option {
	return opt.Checked(bytes >= minMaxRequest && bytes <= math.MaxInt32, func(c *config) { c.MaxDecoded = bytes }, "max decompressed %d, must be 1024 to 2^31-1", bytes)
}

// WithoutContainers makes the client create persistent nodes for all parents, even where containers
// are requested.
func WithoutContainers() Option {
	return opt.Set(func(c *config) { c.Containers = false })
}

// WithErrorPolicy sets which connection states cancel a hold. A recipe can override it with its own
// option. The default is [connstate.SuspendedEndsHold].
func WithErrorPolicy(p connstate.ErrorPolicy) Option {
	return opt.Checked(p == connstate.SuspendedEndsHold || p == connstate.LostEndsHold, func(c *config) { c.ErrorPolicy = p }, "unknown error policy %v", p)
}

// WithExpirationPercent declares the session lost when no server has confirmed it for this
// percentage of its timeout. percent must be 50 to 100; the default is 100. Below 100, the client
// confirms the session even without dependents, and more often, so that a healthy session is not
// lost.
//
// It is Curator's simulatedSessionExpirationPercent, which counts from the loss of the connection.
func WithExpirationPercent(percent int) Option {
	return opt.Checked(percent >= 50 && percent <= 100, func(c *config) { c.ExpirationPercent = percent }, "expiration percent %d, must be 50 to 100", percent)
}

// WithLogger sets the logger of the client and its recipes. By default nothing is logged.
//
//   - Error: a panic of a function that was passed to Listen, a watch or a cache.
//   - Warn: the loss of a session or a lock, and failures of background work.
//   - Info: changes of the connection's state.
//   - Debug: servers to which the client cannot connect.
func WithLogger(log *slog.Logger) Option {
	return opt.Checked(log != nil, func(c *config) { c.Log = log }, "nil logger")
}

// WithObserver reports the client's operations and states to o. For locks see lock.WithObserver.
// Several observers are called in the order of the options.
func WithObserver(o Observer) Option {
	return opt.Set(func(c *config) { c.observers = append(c.observers, o) })
}

// WithEnsembleTracking follows reconfigurations of the ensemble: the client watches
// /zookeeper/config (/keeper/config of a ClickHouse Keeper) and connects to the servers named
// there. If none of them can be used, it also tries the original servers.
//
// It is Curator's EnsembleTracker. By default the client does not track the ensemble.
//
// An address for all interfaces (0.0.0.0 or [::]) stands for the host of its server. With TLS, and
// with Keeper, the configuration does not name the port: if the ports of the original servers
// differ, the configuration is ignored. If the client is not permitted to read the configuration,
// it logs a warning once a minute.
func WithEnsembleTracking() Option {
	return opt.Set(func(c *config) { c.Tracking = true })
}
