package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/zktest"
)

// flags are those of the command line.
type flags struct {
	set  *flag.FlagSet
	help func() // prints the flags

	listen, tlsListen, sasl             list
	cert, key, clients                  string
	control, load                       string
	tick, shortest, longest             time.Duration
	check, latency                      time.Duration
	maxBuffer                           int
	words, superDigest, keeper          string
	ttl, noContainers, quotas, reconfig bool
	requireSASL                         bool
}

// list is a flag that can be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds a value.
func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func newFlags(stderr io.Writer) *flags {
	f := &flags{set: flag.NewFlagSet("zkserver", flag.ContinueOnError)}
	f.set.SetOutput(io.Discard) // what is wrong is printed once, by zkserver
	f.set.Usage = func() {}
	f.help = func() {
		fmt.Fprintln(stderr, "usage: zkserver [flags]\nA ZooKeeper server in memory, for tests and for trying things out.")
		f.set.SetOutput(stderr)
		f.set.PrintDefaults()
	}
	f.set.Var(&f.listen, "listen", "`address` to listen on, several if repeated; port 0 takes a free one (default 127.0.0.1:2181, unless there is a -tls-listen)")
	f.set.Var(&f.tlsListen, "tls-listen", "`address` to listen on with TLS, several if repeated")
	f.set.StringVar(&f.cert, "tls-cert", "", "`file` with the server's certificate, in PEM")
	f.set.StringVar(&f.key, "tls-key", "", "`file` with its key, in PEM")
	f.set.StringVar(&f.clients, "tls-clients", "", "`file` with the authorities of clients' certificates, in PEM; clients then need one")
	f.set.StringVar(&f.control, "control", "", "`address` of the control port, on a loopback interface (default none)")
	f.set.StringVar(&f.load, "load", "", "`file` with nodes to begin with, as GET /nodes of the control port shows them")
	f.set.DurationVar(&f.tick, "tick", 2*time.Second, "the unit of the server's time")
	f.set.DurationVar(&f.shortest, "min-session", 0, "the shortest session that is granted (default 2 ticks)")
	f.set.DurationVar(&f.longest, "max-session", 0, "the longest session that is granted (default 20 ticks)")
	f.set.DurationVar(&f.check, "container-check", time.Minute, "how often empty containers and old TTL nodes are looked for")
	f.set.DurationVar(&f.latency, "latency", 0, "the least time that a request takes")
	f.set.IntVar(&f.maxBuffer, "max-buffer", 1<<20-1, "the longest request in `bytes`, as jute.maxbuffer")
	f.set.StringVar(&f.words, "words", "*", "four-letter `words` that are answered, separated by commas; * is all")
	f.set.StringVar(&f.superDigest, "super-digest", "", "the super user, as `user:base64(SHA-1)`")
	f.set.Var(&f.sasl, "sasl", "let a `user:password` authenticate with SASL (DIGEST-MD5), several if repeated")
	f.set.BoolVar(&f.requireSASL, "require-sasl", false, "serve only clients that have authenticated with SASL")
	f.set.StringVar(&f.keeper, "keeper", "", "be like a ClickHouse Keeper: `age` old, recent, new or newest")
	f.set.BoolVar(&f.ttl, "ttl", false, "allow TTL nodes")
	f.set.BoolVar(&f.noContainers, "no-containers", false, "do not know containers, as ZooKeeper 3.4")
	f.set.BoolVar(&f.quotas, "quotas", false, "enforce hard quotas")
	f.set.BoolVar(&f.reconfig, "reconfig", false, "answer reconfiguration as a standalone ZooKeeper with reconfigEnabled does: as unimplemented, not as disabled")
	return f
}

// options are those of the server.
func (f *flags) options() []zktest.Option {
	words := strings.FieldsFunc(f.words, func(r rune) bool { return r == ',' || r == ' ' })
	opts := []zktest.Option{
		zktest.WithInMemory(), // it listens where a flag says
		zktest.WithTick(f.tick), zktest.WithContainerCheckInterval(f.check), zktest.WithMaxBuffer(f.maxBuffer), zktest.WithWords(words...),
	}
	when := func(given bool, opt zktest.Option) {
		if given {
			opts = append(opts, opt)
		}
	}
	if f.shortest != 0 || f.longest != 0 {
		opts = append(opts, zktest.WithSessionTimeouts(cmp.Or(f.shortest, 2*f.tick), cmp.Or(f.longest, 20*f.tick)))
	}
	when(f.latency != 0, zktest.WithLatency(f.latency))
	when(f.superDigest != "", zktest.WithSuperDigest(f.superDigest))
	users := make(map[string]string)
	for _, credentials := range f.sasl {
		user, password, _ := strings.Cut(credentials, ":")
		users[user] = password
	}
	when(len(users) > 0, zktest.WithSASL(users))
	when(f.requireSASL, zktest.RequireSASL())
	when(f.keeper != "", zktest.LikeKeeper(ages[f.keeper]))
	when(f.ttl, zktest.WithTTLNodes())
	when(f.noContainers, zktest.WithoutContainers())
	when(f.quotas, zktest.WithEnforcedQuotas())
	when(f.reconfig, zktest.WithReconfig())
	return opts
}

var ages = map[string]zktest.KeeperAge{
	"old": zktest.KeeperOld, "recent": zktest.KeeperRecent, "new": zktest.KeeperNew, "newest": zktest.KeeperNewest,
}

// parse reads the command line. The error is flag.ErrHelp if help was asked for and given.
func (f *flags) parse(args []string) error {
	if err := f.set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.help()
		}
		return err
	}
	if f.set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.set.Arg(0))
	}
	if _, known := ages[f.keeper]; f.keeper != "" && !known {
		return fmt.Errorf("-keeper %q is not old, recent, new or newest", f.keeper)
	}
	if slices.ContainsFunc(f.sasl, func(credentials string) bool { return strings.Index(credentials, ":") < 1 }) {
		return errors.New("-sasl is not user:password") // which is not printed
	}
	if f.requireSASL && len(f.sasl) == 0 {
		return errors.New("-require-sasl needs -sasl")
	}
	if len(f.tlsListen) > 0 && (f.cert == "" || f.key == "") {
		return errors.New("-tls-listen needs -tls-cert and -tls-key")
	}
	if len(f.tlsListen) == 0 && len(f.listen) == 0 {
		f.listen = list{"127.0.0.1:2181"}
	}
	return checkLoopback(f.control)
}

// checkLoopback refuses a control port that others can reach.
func checkLoopback(addr string) error {
	if addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("-control %s: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("-control %s is not on a loopback interface, such as 127.0.0.1", addr)
	}
	return nil
}

// tls is the configuration of -tls-listen, nil without.
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
		return nil, fmt.Errorf("%s has no certificate", f.clients)
	}
	return config, nil
}

// nodes are those of -load.
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
