package ensemble

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Option configures an ensemble.
type Option func(*config) error

type config struct {
	servers int
	image   string
	env     map[string]string
	extra   []string
	files   map[string]string
}

func defaults() config {
	return config{
		servers: 3,
		env: map[string]string{
			"ZOO_TICK_TIME":              "2000",
			"ZOO_INIT_LIMIT":             "10",
			"ZOO_SYNC_LIMIT":             "5",
			"ZOO_MAX_CLIENT_CNXNS":       "0", // all clients come from one address
			"ZOO_4LW_COMMANDS_WHITELIST": "*",
			"ZOO_ADMINSERVER_ENABLED":    "false",
			"JVMFLAGS":                   "-Dzookeeper.extendedTypesEnabled=true",
		},
	}
}

// WithServers sets how many servers there are. The default is 3; 1 is a standalone server.
func WithServers(n int) Option {
	return func(c *config) error {
		if n < 1 || n > 9 {
			return fmt.Errorf("ensemble: %d servers", n)
		}
		c.servers = n
		return nil
	}
}

// WithImage sets the image, instead of ZOOKEEPER_IMAGE.
func WithImage(name string) Option {
	return func(c *config) error {
		c.image = name
		return nil
	}
}

// WithTick sets the servers' tick, the unit of their time: sessions get 2 to 20. The
// default is 2 s, as in ZooKeeper.
func WithTick(d time.Duration) Option {
	return func(c *config) error {
		if d < time.Millisecond {
			return fmt.Errorf("ensemble: tick %v", d)
		}
		c.env["ZOO_TICK_TIME"] = strconv.FormatInt(d.Milliseconds(), 10)
		return nil
	}
}

// WithEnv sets an environment variable of the containers. See the image's documentation.
func WithEnv(name, value string) Option {
	return func(c *config) error {
		c.env[name] = value
		return nil
	}
}

// WithFile puts a file into the containers before they start, such as a JAAS file that JVMFLAGS names. Its path is absolute. Everybody
// may read it.
func WithFile(path, content string) Option {
	return func(c *config) error {
		if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
			return fmt.Errorf("ensemble: file %q", path)
		}
		if c.files == nil {
			c.files = make(map[string]string)
		}
		c.files[path] = content
		return nil
	}
}

// WithConfig adds a line to the servers' configuration, as in "minSessionTimeout=1000".
func WithConfig(line string) Option {
	return func(c *config) error {
		c.extra = append(c.extra, line)
		return nil
	}
}

// environment is what a container gets beside what depends on the server.
func (c config) environment() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		env = append(env, name+"="+c.env[name])
	}
	return env
}
