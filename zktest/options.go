package zktest

import (
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/internal/proto"
)

// Option configures a server, or each member of a [Cluster]. [Start] and [StartCluster] refuse bad values, and options that are only
// for the other of them.
type Option func(*config) error

type config struct {
	addr          string
	inMemory      bool
	tick          time.Duration
	minTimeout    time.Duration
	maxTimeout    time.Duration
	containerScan time.Duration
	neverUsed     time.Duration // 0: such containers stay
	containers    bool
	ttlNodes      bool
	maxFrame      int
	cluster       clusterConfig
	latency       time.Duration
	keeper        KeeperAge // 0: ZooKeeper
	version       Version
	unknown       []Op
	words         []string
	superDigest   string
	quotas        bool
	reconfig      bool
	saslUsers     map[string]string // nil: no SASL
	requireSASL   bool
}

// configure applies options to the defaults.
func configure(opts []Option) (config, error) {
	cfg := config{
		addr:          "127.0.0.1:0",
		tick:          2 * time.Second,
		containerScan: time.Minute,
		containers:    true,
		maxFrame:      1<<20 - 1,
		cluster:       clusterDefaults(),
		words:         []string{"*"},
	}
	for _, opt := range opts {
		if opt == nil {
			return config{}, errors.New("zktest: nil option")
		}
		if err := opt(&cfg); err != nil {
			return config{}, err
		}
	}
	if err := cfg.checkSASL(); err != nil {
		return config{}, err
	}
	switch {
	case cfg.keeper != 0 && cfg.version != 0:
		return config{}, errors.New("zktest: WithVersion is for ZooKeeper, not for LikeKeeper")
	case cfg.keeper != 0:
		cfg.version = V3_8 // where LikeKeeper does not say otherwise
		if !cfg.ttlNodes {
			cfg.unknown = append(cfg.unknown, OpCreateTTL)
		}
	case cfg.version == 0:
		cfg.version = newest
	}
	if cfg.minTimeout == 0 {
		cfg.minTimeout, cfg.maxTimeout = 2*cfg.tick, 20*cfg.tick
	}
	if cfg.cluster.syncTimeout == 0 {
		cfg.cluster.syncTimeout = 2 * cfg.tick
	}
	return cfg, nil
}

// WithAddr sets the TCP address to listen on. The default is a free port of 127.0.0.1.
func WithAddr(addr string) Option {
	return func(c *config) error {
		c.addr = addr
		return nil
	}
}

// WithInMemory makes a server without TCP: clients reach it only through [Server.Dial] and [Server.DialContext], and through
// addresses that [Server.Listen] adds. Such a server and its clients work inside a testing/synctest bubble.
func WithInMemory() Option {
	return func(c *config) error {
		c.inMemory = true
		return nil
	}
}

// WithTick sets the server's unit of time: a session gets 2 to 20 ticks by default (see [WithSessionTimeouts]),
// and ends at the end of a tick. The default is 2 s, as in ZooKeeper.
func WithTick(d time.Duration) Option {
	return positive("tick", d, func(c *config) { c.tick = d })
}

// WithSessionTimeouts sets the shortest and longest session that is granted.
func WithSessionTimeouts(shortest, longest time.Duration) Option {
	return func(c *config) error {
		if shortest <= 0 || longest < shortest {
			return fmt.Errorf("zktest: session timeouts %v to %v", shortest, longest)
		}
		c.minTimeout, c.maxTimeout = shortest, longest
		return nil
	}
}

// WithContainerCheckInterval sets how often empty containers, and TTL nodes whose time
// has passed, are deleted. The default is a minute, as in ZooKeeper.
func WithContainerCheckInterval(d time.Duration) Option {
	return positive("container check interval", d, func(c *config) { c.containerScan = d })
}

// WithMaxNeverUsed sets how old a container gets that never had a child, as znode.container.maxNeverUsedIntervalMs does: the next
// check deletes it then. By default it stays, as in ZooKeeper.
func WithMaxNeverUsed(d time.Duration) Option {
	return positive("age of containers that were never used", d, func(c *config) { c.neverUsed = d })
}

// WithoutContainers makes a server that does not know containers, like ZooKeeper 3.4: it answers
// that the request is not implemented, and cuts the connection.
func WithoutContainers() Option {
	return func(c *config) error {
		c.containers = false
		return nil
	}
}

// WithTTLNodes allows TTL nodes, which ZooKeeper does not by default.
func WithTTLNodes() Option {
	return func(c *config) error {
		c.ttlNodes = true
		return nil
	}
}

// WithMaxBuffer sets the longest request that is accepted, in bytes (jute.maxbuffer). The
// connection that sends a longer one is cut. The default is 1 MiB less one.
func WithMaxBuffer(n int) Option {
	return func(c *config) error {
		if n < 64 {
			return fmt.Errorf("zktest: max buffer %d", n)
		}
		c.maxFrame = n
		return nil
	}
}

// WithReconfig allows reconfiguration, as reconfigEnabled=true does. A standalone server then answers it as
// unimplemented (-6), and without this option as disabled (-123).
func WithReconfig() Option {
	return func(c *config) error {
		c.reconfig = true
		return nil
	}
}

// reconfigCode answers a reconfiguration.
func (c *config) reconfigCode() proto.Code {
	if c.reconfig {
		return proto.Unimplemented
	}
	return proto.ReconfigDisabled
}

func positive(what string, d time.Duration, set func(*config)) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("zktest: %s %v is not positive", what, d)
		}
		set(c)
		return nil
	}
}
