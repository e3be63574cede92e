package zktest

import (
	"fmt"
	"time"
)

// clusterConfig is what only a cluster looks at.
type clusterConfig struct {
	seed        uint64
	lag         time.Duration
	latency     time.Duration
	election    time.Duration
	syncTimeout time.Duration
	used        string // an option of these, for a server that has no use for it
}

func clusterDefaults() clusterConfig {
	return clusterConfig{seed: 1, lag: 2 * time.Millisecond, election: 200 * time.Millisecond}
}

// WithSeed sets where the random choices of a [Cluster] come from. The default is always the same.
func WithSeed(seed uint64) Option {
	return func(c *config) error {
		c.cluster.seed, c.cluster.used = seed, "WithSeed"
		return nil
	}
}

// WithLag has each follower of a [Cluster] apply each transaction a random time of up to d after it has
// heard that it is committed. Until then it serves the older state. The leader applies at once, and takes up to d to end a
// session whose time has passed. The default is 2 ms. [Cluster.Lag] sets it for one member.
func WithLag(d time.Duration) Option {
	return notNegative("lag", d, func(c *config) { c.cluster.lag, c.cluster.used = d, "WithLag" })
}

// WithMemberLatency has each message between two members of a [Cluster] take a random time of up to d. The
// default is 0. What is on its way when the leader is lost is lost with it.
func WithMemberLatency(d time.Duration) Option {
	return notNegative("member latency", d, func(c *config) { c.cluster.latency, c.cluster.used = d, "WithMemberLatency" })
}

// WithElectionTime sets how long a [Cluster] takes at most to elect a leader, once a majority of members look for
// one. It takes a random time, at least half of that. The default is 200 ms.
func WithElectionTime(d time.Duration) Option {
	return positive("election time", d, func(c *config) { c.cluster.election, c.cluster.used = d, "WithElectionTime" })
}

// WithSyncTimeout sets how long a member of a [Cluster] that hears nothing from another waits until it gives that
// connection up. The default is 2 ticks, the syncLimit of ZooKeeper's images. The end of a process
// is noticed at once.
func WithSyncTimeout(d time.Duration) Option {
	return positive("sync timeout", d, func(c *config) { c.cluster.syncTimeout, c.cluster.used = d, "WithSyncTimeout" })
}

func notNegative(what string, d time.Duration, set func(*config)) Option {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("zktest: %s %v is negative", what, d)
		}
		set(c)
		return nil
	}
}
