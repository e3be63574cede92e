package zktest

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/zktest/internal/wire"
)

// WithProperties sets properties of a server by the names and in the units of ZooKeeper's
// documentation, without the prefix "zookeeper.". The program zkserver and package ensemble take
// the same names. If a property is set again, the last value applies.
//
// [Start] fails for an invalid value, and for a name that is not in this list:
//
//	tickTime
//		the unit of the server's time, in milliseconds; 2000 by default
//	minSessionTimeout, maxSessionTimeout
//		the shortest and the longest session; 2 and 20 ticks by default
//	maxClientCnxns
//		connections from one host; 0, the default, is no limit (a real server's default is 60)
//	jute.maxbuffer
//		the longest request, in bytes; 0xfffff by default
//	extendedTypesEnabled
//		true allows TTL nodes
//	znode.container.checkIntervalMs
//		how often empty containers and expired TTL nodes are deleted; 60000 by default
//	znode.container.maxNeverUsedIntervalMs
//		the age at which a container that never had a child is deleted; 0, the default, is never
//	enforceQuota
//		true refuses requests that exceed a hard quota (-125)
//	reconfigEnabled
//		true answers reconfig with -6 instead of -123
//	4lw.commands.whitelist
//		the four-letter words that are answered, separated by commas; * by default (a real
//		server: srvr)
//	DigestAuthenticationProvider.superDigest
//		the super user, as [Digest] returns it; none by default
//	sessionRequireClientSASLAuth
//		true refuses requests (-124) of clients that have not authenticated: see [WithSASL]
func WithProperties(properties map[string]string) Option {
	properties = maps.Clone(properties)
	return func(c *config) error {
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			set := settings[name]
			if set == nil {
				return fmt.Errorf("zktest: unknown property %q", name)
			}
			if err := set(c, strings.TrimSpace(properties[name])); err != nil {
				return fmt.Errorf("zktest: property %s=%s: %w", name, properties[name], err)
			}
		}
		return nil
	}
}

// settings set a property.
var settings = map[string]func(c *config, value string) error{
	"tickTime":                               duration(1, func(c *config) *time.Duration { return &c.Tick }),
	"minSessionTimeout":                      duration(1, func(c *config) *time.Duration { return &c.MinTimeout }),
	"maxSessionTimeout":                      duration(1, func(c *config) *time.Duration { return &c.MaxTimeout }),
	"znode.container.checkIntervalMs":        duration(1, func(c *config) *time.Duration { return &c.cluster.ContainerScan }),
	"znode.container.maxNeverUsedIntervalMs": duration(0, func(c *config) *time.Duration { return &c.NeverUsed }),
	"maxClientCnxns":                         number(0, func(c *config) *int { return &c.MaxConns }),
	"jute.maxbuffer":                         number(64, func(c *config) *int { return &c.MaxFrame }),
	"extendedTypesEnabled":                   truth(func(c *config) *bool { return &c.TTLNodes }),
	"enforceQuota":                           truth(func(c *config) *bool { return &c.Quotas }),
	"reconfigEnabled":                        truth(func(c *config) *bool { return &c.Reconfig }),
	"sessionRequireClientSASLAuth":           truth(func(c *config) *bool { return &c.RequireSASL }),
	"4lw.commands.whitelist":                 setWords,
	"DigestAuthenticationProvider.superDigest": func(c *config, value string) error {
		user, hash, _ := strings.Cut(value, ":")
		sum, err := base64.StdEncoding.DecodeString(hash)
		if user == "" || err != nil || len(sum) != sha1.Size {
			return errors.New("must be a digest user:base64(SHA-1)")
		}
		c.SuperDigest = value
		return nil
	},
}

// number is a property that is a number of at least this.
func number(least int, field func(*config) *int) func(*config, string) error {
	return func(c *config, value string) error {
		n, err := strconv.ParseInt(value, 0, 32) // as Java, with 0x
		if err != nil || int(n) < least {
			return fmt.Errorf("must be a number from %d to %d", least, math.MaxInt32)
		}
		*field(c) = int(n)
		return nil
	}
}

// duration is a property that is a number of milliseconds.
func duration(least int, field func(*config) *time.Duration) func(*config, string) error {
	return func(c *config, value string) error {
		ms := 0
		err := number(least, func(*config) *int { return &ms })(c, value)
		*field(c) = time.Duration(ms) * time.Millisecond
		return err
	}
}

// truth is a property that is true or false.
func truth(field func(*config) *bool) func(*config, string) error {
	return func(c *config, value string) error {
		switch strings.ToLower(value) {
		case "true":
			*field(c) = true
		case "false":
			*field(c) = false
		default:
			return errors.New("must be true or false")
		}
		return nil
	}
}

// setWords sets the four-letter words that are answered.
func setWords(c *config, value string) error {
	c.Words = nil
	for word := range strings.SplitSeq(value, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		if word != "*" && !wire.KnownWord(word) {
			return fmt.Errorf("unknown four-letter word %q", word)
		}
		c.Words = append(c.Words, word)
	}
	return nil
}
