package zktest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/zktest/internal/cluster"
	"github.com/gocurator/curator/zktest/internal/tree"
	"github.com/gocurator/curator/zktest/internal/wire"
)

// Option configures a server, or each member of a [Cluster]. [Start] and [StartCluster] reject
// invalid values and options that do not apply to them.
type Option func(*config) error

// config is the sum of the options.
type config struct {
	wire.Config
	cluster     cluster.Config
	clusterOnly string // the name of an option that was used and is only for clusters
	addr        string
	inMemory    bool
}

// configure applies options to the defaults.
func configure(opts []Option) (config, error) {
	cfg := config{
		addr: "127.0.0.1:0",
		Config: wire.Config{
			Timing: wire.Timing{Tick: 2 * time.Second},
			Limits: wire.Limits{Containers: true, MaxFrame: 1<<20 - 1},
			Words:  []string{"*"},
		},
		cluster: cluster.Config{Seed: 1, ContainerScan: time.Minute, Lag: 2 * time.Millisecond, Election: 200 * time.Millisecond},
	}
	for _, opt := range opts {
		if opt == nil {
			return config{}, errors.New("zktest: nil option")
		}
		if err := opt(&cfg); err != nil {
			return config{}, err
		}
	}
	if cfg.RequireSASL && cfg.SASLUsers == nil {
		return config{}, errors.New("zktest: property sessionRequireClientSASLAuth requires WithSASL")
	}
	switch {
	case cfg.Keeper != 0 && cfg.Version != 0:
		return config{}, errors.New("zktest: WithVersion and LikeKeeper cannot be combined")
	case cfg.Keeper != 0:
		cfg.Version = tree.V38 // where LikeKeeper does not say otherwise
		if !cfg.TTLNodes {
			cfg.Unknown = append(cfg.Unknown, proto.OpCreateTTL)
		}
	case cfg.Version == 0:
		cfg.Version = tree.Newest
	}
	return cfg, cfg.complete()
}

// complete sets what follows from other settings.
func (c *config) complete() error {
	c.SASL = c.SASLUsers != nil
	c.MinTimeout, c.MaxTimeout = cmp.Or(c.MinTimeout, 2*c.Tick), cmp.Or(c.MaxTimeout, 20*c.Tick)
	if c.MaxTimeout < c.MinTimeout {
		return fmt.Errorf("zktest: invalid session timeouts: minSessionTimeout %v exceeds maxSessionTimeout %v", c.MinTimeout, c.MaxTimeout)
	}
	c.cluster.Tick = c.Tick
	c.cluster.SyncTimeout = cmp.Or(c.cluster.SyncTimeout, 2*c.Tick)
	return nil
}

// WithAddr sets the TCP address to listen on. The default is a free port of 127.0.0.1.
func WithAddr(addr string) Option {
	return func(c *config) error {
		c.addr = addr
		return nil
	}
}

// WithInMemory starts a server without TCP, for a testing/synctest bubble. Clients can reach it
// only by [Server.Dial] and [Server.DialContext], and at addresses added by [Server.Listen].
//
// Every wait in a bubble needs a deadline. A server has timers, and so has a client that is
// connected or connecting. Therefore synctest does not report a deadlock if a test waits for an
// event that never happens: the bubble's clock advances forever.
func WithInMemory() Option {
	return func(c *config) error {
		c.inMemory = true
		return nil
	}
}

// WithoutContainers starts a server that cuts the connection on a request for a container, like
// ZooKeeper 3.4.
func WithoutContainers() Option {
	return func(c *config) error {
		c.Containers = false
		return nil
	}
}

// WithLatency delays the reply to each request, including handshakes, until d after the request, as
// a network does. Requests that a client sends together are answered together. Watch events are not
// delayed.
//
// [Server.Delay] delays chosen requests one after the other.
func WithLatency(d time.Duration) Option {
	return positive("latency", d, func(c *config) { c.Latency = d })
}

// WithSASL enables SASL authentication (DIGEST-MD5) for these users with these passwords. Access
// lists may then have the scheme "sasl", whose ids are user names.
//
// A failed authentication is answered with -115, and the connection is cut. Without the option, the
// reply is an empty token, as without a JAAS file.
func WithSASL(users map[string]string) Option {
	return func(c *config) error {
		if len(users) == 0 {
			return errors.New("zktest: WithSASL requires at least one user")
		}
		c.SASLUsers = maps.Clone(users)
		return nil
	}
}

// Digest returns the id for user:password in access lists of scheme "digest": user, a colon, and
// the SHA-1 of user:password in base64.
func Digest(userPassword string) string { return tree.Digest(userPassword) }

// WithSeed sets the seed of the random choices of a [Cluster]. The default is a constant.
func WithSeed(seed uint64) Option {
	return func(c *config) error {
		c.cluster.Seed, c.clusterOnly = seed, "WithSeed"
		return nil
	}
}

// WithLag delays each transaction on each follower of a [Cluster] by a random time of up to d.
// Until then the follower serves the older state. The default is 2 ms, and [Cluster.Lag] sets the
// delay of one member.
//
// The leader applies transactions at once, but may expire sessions late by d.
func WithLag(d time.Duration) Option {
	return notNegative("lag", d, func(c *config) { c.cluster.Lag, c.clusterOnly = d, "WithLag" })
}

// WithMemberLatency delays each message between two members of a [Cluster] by a random time of up
// to d. The default is 0. When the leader is lost, messages in flight are lost too.
func WithMemberLatency(d time.Duration) Option {
	return notNegative("member latency", d, func(c *config) { c.cluster.Latency, c.clusterOnly = d, "WithMemberLatency" })
}

// withElectionTime sets the longest time that a [Cluster] takes to elect a leader, once a majority
// of members look for one. It takes a random time, at least half of it. The default is 200 ms.
func withElectionTime(d time.Duration) Option {
	return positive("election time", d, func(c *config) { c.cluster.Election, c.clusterOnly = d, "withElectionTime" })
}

// WithSyncTimeout sets the time after which a member of a [Cluster] closes a connection to a silent
// member. The default is 2 ticks, the syncLimit of ZooKeeper's images. If a member's process exits,
// the other members detect it at once.
func WithSyncTimeout(d time.Duration) Option {
	return positive("sync timeout", d, func(c *config) { c.cluster.SyncTimeout, c.clusterOnly = d, "WithSyncTimeout" })
}

func notNegative(what string, d time.Duration, set func(*config)) Option {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("zktest: %s %v, must not be negative", what, d)
		}
		set(c)
		return nil
	}
}

func positive(what string, d time.Duration, set func(*config)) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("zktest: %s %v, must be positive", what, d)
		}
		set(c)
		return nil
	}
}
