package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/zktest"
)

// flags are the flags of the command line.
type flags struct {
	listen, tlsListen, sasl, properties []string
	cert, key, clients                  string
	control, load, timeline             string
	tick, shortest, longest             time.Duration
	check, latency                      time.Duration
	maxBuffer                           int
	words, superDigest, keeper          string
	ttl, noContainers, quotas, reconfig bool
	requireSASL                         bool
}

func (f *flags) define(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.listen, "listen", nil, "`address` to listen on, several if repeated; port 0 takes a free one (default 127.0.0.1:2181, unless there is a --tls-listen)")
	fs.StringArrayVar(&f.tlsListen, "tls-listen", nil, "`address` to listen on with TLS, several if repeated")
	fs.StringVar(&f.cert, "tls-cert", "", "PEM `file` with the server's certificate")
	fs.StringVar(&f.key, "tls-key", "", "PEM `file` with the key of --tls-cert")
	fs.StringVar(&f.clients, "tls-clients", "", "PEM `file` with the authorities of clients' certificates; clients then need one")
	fs.StringVar(&f.control, "control", "", "`address` of the control port, on a loopback interface (default none)")
	fs.StringVar(&f.load, "load", "", "`file` with initial nodes, as GET /nodes of the control port shows them")
	fs.StringVar(&f.timeline, "timeline", "", "`file` for a page that shows the run, written at the end; GET /timeline of the control port shows it before")
	cli.Duration(fs, &f.tick, "tick", "", 2*time.Second, "the unit of the server's time")
	cli.Duration(fs, &f.shortest, "min-session", "", 0, "the shortest session timeout that is granted; 0s is 2 ticks")
	cli.Duration(fs, &f.longest, "max-session", "", 0, "the longest session timeout that is granted; 0s is 20 ticks")
	cli.Duration(fs, &f.check, "container-check", "", time.Minute, "the interval between checks for empty containers and expired TTL nodes")
	cli.Duration(fs, &f.latency, "latency", "", 0, "the minimum duration of a request")
	fs.IntVar(&f.maxBuffer, "max-buffer", 1<<20-1, "the longest request in `bytes`, as jute.maxbuffer")
	fs.StringVar(&f.words, "words", "*", "four-letter `words` that are answered, separated by commas; * is all")
	fs.StringVar(&f.superDigest, "super-digest", "", "the super user, as `user:base64(SHA-1)`")
	fs.StringArrayVar(&f.sasl, "sasl", nil, "let a `user:password` authenticate with SASL (DIGEST-MD5), several if repeated")
	fs.BoolVar(&f.requireSASL, "require-sasl", false, "serve only clients that have authenticated with SASL")
	fs.StringVar(&f.keeper, "keeper", "", "imitate a ClickHouse Keeper: `age` old, recent, new or newest")
	fs.BoolVar(&f.ttl, "ttl", false, "allow TTL nodes")
	fs.BoolVar(&f.noContainers, "no-containers", false, "refuse containers, as ZooKeeper 3.4")
	fs.BoolVar(&f.quotas, "quotas", false, "enforce hard quotas")
	fs.BoolVar(&f.reconfig, "reconfig", false, "answer reconfiguration as a standalone ZooKeeper with reconfigEnabled does: as unimplemented, not as disabled")
	fs.StringArrayVar(&f.properties, "property", nil, "set a property of the server: `name=value` with a name of ZooKeeper's documentation, several if repeated")
}

// options returns the options of the server.
func (f *flags) options() []zktest.Option {
	properties := map[string]string{
		"tickTime":                        milliseconds(f.tick),
		"znode.container.checkIntervalMs": milliseconds(f.check),
		"jute.maxbuffer":                  strconv.Itoa(f.maxBuffer),
		"4lw.commands.whitelist":          strings.ReplaceAll(f.words, " ", ","),
		"extendedTypesEnabled":            strconv.FormatBool(f.ttl),
		"enforceQuota":                    strconv.FormatBool(f.quotas),
		"reconfigEnabled":                 strconv.FormatBool(f.reconfig),
		"sessionRequireClientSASLAuth":    strconv.FormatBool(f.requireSASL),
	}
	if f.shortest != 0 {
		properties["minSessionTimeout"] = milliseconds(f.shortest)
	}
	if f.longest != 0 {
		properties["maxSessionTimeout"] = milliseconds(f.longest)
	}
	if f.superDigest != "" {
		properties["DigestAuthenticationProvider.superDigest"] = f.superDigest
	}
	for _, property := range f.properties {
		name, value, _ := strings.Cut(property, "=")
		properties[name] = value
	}
	opts := []zktest.Option{zktest.WithInMemory(), zktest.WithProperties(properties)} // it listens where a flag says
	when := func(given bool, opt zktest.Option) {
		if given {
			opts = append(opts, opt)
		}
	}
	when(f.latency != 0, zktest.WithLatency(f.latency))
	users := make(map[string]string)
	for _, credentials := range f.sasl {
		user, password, _ := strings.Cut(credentials, ":")
		users[user] = password
	}
	when(len(users) > 0, zktest.WithSASL(users))
	when(f.keeper != "", zktest.LikeKeeper(f.keeper))
	when(f.timeline != "", zktest.WithTimeline())
	when(f.noContainers, zktest.WithoutContainers())
	return opts
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// validate checks what the library cannot.
func (f *flags) validate() error {
	if !slices.Contains([]string{"", "old", "recent", "new", "newest"}, f.keeper) {
		return fmt.Errorf("invalid --keeper %q: must be old, recent, new or newest", f.keeper)
	}
	if slices.ContainsFunc(f.sasl, func(credentials string) bool { return strings.Index(credentials, ":") < 1 }) {
		return errors.New("--sasl must be user:password") // which is not printed
	}
	if f.requireSASL && len(f.sasl) == 0 {
		return errors.New("--require-sasl requires --sasl")
	}
	if len(f.tlsListen) > 0 && (f.cert == "" || f.key == "") {
		return errors.New("--tls-listen requires --tls-cert and --tls-key")
	}
	if len(f.tlsListen) == 0 && len(f.listen) == 0 {
		f.listen = []string{"127.0.0.1:2181"}
	}
	return checkLoopback(f.control)
}

// checkLoopback returns an error unless addr is on a loopback interface.
func checkLoopback(addr string) error {
	if addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--control %s: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--control %s is not a loopback address such as 127.0.0.1", addr)
	}
	return nil
}

// tls returns the configuration of --tls-listen, and nil without one.
func (f *flags) tls() (*tls.Config, error) {
	if len(f.tlsListen) == 0 {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	if f.clients == "" {
		return config, nil
	}
	pem, err := os.ReadFile(f.clients)
	if err != nil {
		return nil, err
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s contains no certificate", f.clients)
	}
	return config, nil
}

// nodes reads the file of --load.
func (f *flags) nodes() ([]zktest.Node, error) {
	if f.load == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.load)
	if err != nil {
		return nil, err
	}
	var in struct {
		Nodes []zktest.Node `json:"nodes"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", f.load, err)
	}
	return in.Nodes, nil
}
