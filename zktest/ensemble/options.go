package ensemble

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Option configures an ensemble.
type Option func(*config) error

type config struct {
	servers int
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

// WithServers sets the number of servers, from 1 to 9. The default is 3, and 1 is a standalone
// server.
func WithServers(n int) Option {
	return func(c *config) error {
		if n < 1 || n > 9 {
			return fmt.Errorf("ensemble: invalid number of servers %d: must be 1 to 9", n)
		}
		c.servers = n
		return nil
	}
}

// WithEnv sets an environment variable of the containers: the image documents its variables.
func WithEnv(name, value string) Option {
	return func(c *config) error {
		c.env[name] = value
		return nil
	}
}

// WithFile writes a file, such as a JAAS file for JVMFLAGS, to an absolute path of the containers.
// All users can read it.
func WithFile(path, content string) Option {
	return func(c *config) error {
		if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
			return fmt.Errorf("ensemble: invalid file path %q: must be absolute without a trailing slash", path)
		}
		if c.files == nil {
			c.files = make(map[string]string)
		}
		c.files[path] = content
		return nil
	}
}

// WithProperties sets properties of the servers, by the names and in the units of ZooKeeper's
// documentation, without the prefix "zookeeper.". zktest.WithProperties takes the same names.
// [Start] fails for an unknown name.
//
// Defaults are a tickTime of 2000, no limit of connections per host, and all four-letter words.
func WithProperties(properties map[string]string) Option {
	return func(c *config) error {
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			set := settings[name]
			if set == nil {
				return fmt.Errorf("ensemble: unknown property %q", name)
			}
			set(c, name, properties[name])
		}
		return nil
	}
}

// settings set a property where a real server looks for it.
var settings = map[string]func(c *config, name, value string){
	"tickTime":                                 inEnv("ZOO_TICK_TIME"),
	"maxClientCnxns":                           inEnv("ZOO_MAX_CLIENT_CNXNS"),
	"4lw.commands.whitelist":                   inEnv("ZOO_4LW_COMMANDS_WHITELIST"),
	"minSessionTimeout":                        inFile,
	"maxSessionTimeout":                        inFile,
	"reconfigEnabled":                          inFile,
	"jute.maxbuffer":                           inJVM(""),
	"znode.container.checkIntervalMs":          inJVM(""),
	"znode.container.maxNeverUsedIntervalMs":   inJVM(""),
	"extendedTypesEnabled":                     inJVM("zookeeper."),
	"enforceQuota":                             inJVM("zookeeper."),
	"DigestAuthenticationProvider.superDigest": inJVM("zookeeper."),
	"sessionRequireClientSASLAuth":             inJVM("zookeeper."),
}

func inEnv(variable string) func(*config, string, string) {
	return func(c *config, _, value string) { c.env[variable] = value }
}

func inFile(c *config, name, value string) { c.extra = append(c.extra, name+"="+value) }

func inJVM(prefix string) func(*config, string, string) {
	return func(c *config, name, value string) {
		c.env["JVMFLAGS"] += fmt.Sprintf(" -D%s%s=%s", prefix, name, value)
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
