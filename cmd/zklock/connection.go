package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/dialerrors"
)

// connection is how to reach ZooKeeper: the flags that all commands have that use it.
type connection struct {
	servers, namespace string
	auth               []string // each is credentials, or a file with them
	tls                bool
	files              tlsFiles
	serverName         string
	creates            bool   // the command creates nodes, and has -acl
	acl                string // of these nodes; "" is the client's default
	timeout            time.Duration
	verbose            bool
}

func (c *connection) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.servers, "servers", "", "`host:port,...` of the ensemble, with a /chroot behind it or not; without it $ZKLOCK_SERVERS or 127.0.0.1:2181")
	fs.StringVar(&c.namespace, "namespace", "", "a `path` without its first slash that all paths are below; without it $ZKLOCK_NAMESPACE")
	fs.Func("auth", "present `credentials`, as in digest:user:password, or sasl:user:password for DIGEST-MD5, or all in @file, one a line; repeatable; without it $ZKLOCK_AUTH", func(text string) error {
		c.auth = append(c.auth, text) // checked later: package flag prints a value that it refuses
		return nil
	})
	fs.BoolVar(&c.tls, "tls", false, "speak TLS; also with ZKLOCK_TLS=true")
	fs.StringVar(&c.files.authorities, "cacert", "", "PEM `file` with the authorities of the servers' certificates, instead of the system's; without it $ZKLOCK_CACERT")
	fs.StringVar(&c.files.cert, "cert", "", "PEM `file` with our certificate, for servers that ask for one; without it $ZKLOCK_CERT")
	fs.StringVar(&c.files.key, "key", "", "PEM `file` with the key of -cert; without it $ZKLOCK_KEY")
	fs.StringVar(&c.serverName, "tls-server-name", "", "`name` in the servers' certificates, if it is not the host in -servers; without it $ZKLOCK_TLS_SERVER_NAME")
	fs.DurationVar(&c.timeout, "connect", 30*time.Second, "look for a server no longer than this")
	fs.BoolVar(&c.verbose, "v", false, "say who is ahead while waiting, and log connections and sessions, on standard error")
}

func (c *connection) aclFlag(fs *flag.FlagSet) {
	c.creates = true
	fs.StringVar(&c.acl, "acl", "", "`list` for the nodes that are created, as in zkCli; creator is auth::cdrwa; without it $ZKLOCK_ACL or world:anyone:cdrwa")
}

// reportAfter is how long a command waits for a server before it prints so.
const reportAfter = 2 * time.Second

// fromEnvironment sets what no flag has set.
func (c *connection) fromEnvironment() error {
	for name, value := range map[string]*string{
		"ZKLOCK_SERVERS":         &c.servers,
		"ZKLOCK_NAMESPACE":       &c.namespace,
		"ZKLOCK_CACERT":          &c.files.authorities,
		"ZKLOCK_CERT":            &c.files.cert,
		"ZKLOCK_KEY":             &c.files.key,
		"ZKLOCK_TLS_SERVER_NAME": &c.serverName,
		"ZKLOCK_ACL":             &c.acl,
	} {
		*value = cmp.Or(*value, os.Getenv(name))
	}
	if text := os.Getenv("ZKLOCK_AUTH"); text != "" && len(c.auth) == 0 {
		c.auth = []string{text}
	}
	if text := os.Getenv("ZKLOCK_TLS"); text != "" && !c.tls {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return usageError("ZKLOCK_TLS %q is neither true nor false", text)
		}
		c.tls = on
	}
	return nil
}

// security are the options of a client for -auth, -acl and -tls.
func (c *connection) security() ([]framework.Option, error) {
	var opts []framework.Option
	for _, text := range c.auth {
		all, err := parseAuth(text)
		if err != nil {
			return nil, err
		}
		opts = append(opts, all...)
	}
	if c.creates && c.acl != "" {
		acl, err := parseACL(c.acl)
		if err != nil {
			return nil, err
		}
		if len(c.auth) == 0 && c.files.cert == "" && slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Scheme == "auth" }) {
			return nil, usageError("-acl: creator and auth need -auth or -cert")
		}
		opts = append(opts, framework.WithACLProvider(func(string) []zk.ACL { return acl }))
	}
	if !c.tls && (c.files != tlsFiles{} || c.serverName != "") {
		return nil, usageError("-cacert, -cert, -key and -tls-server-name need -tls")
	}
	if !c.tls {
		return opts, nil
	}
	files, err := c.files.option()
	if err != nil {
		return nil, err
	}
	return append(opts, framework.WithTLS(&tls.Config{ServerName: c.serverName}), files), nil
}

// connect makes a client and waits until a server answers.
func (c *connection) connect(ctx context.Context, t *tool, opts ...framework.Option) (*framework.Client, error) {
	if c.timeout <= 0 {
		return nil, usageError("-connect %v is not positive", c.timeout)
	}
	if err := c.fromEnvironment(); err != nil {
		return nil, err
	}
	security, err := c.security()
	if err != nil {
		return nil, err
	}
	level := slog.LevelWarn
	if c.verbose {
		level = slog.LevelDebug
	}
	text := cmp.Or(c.servers, "127.0.0.1:2181")
	servers, chroot, err := framework.ParseConnectString(text)
	if err != nil {
		return nil, usageError("-servers: %w", err)
	}
	namespace := c.namespace
	if chroot != "" && !strings.HasPrefix(namespace, "/") { // otherwise the client says what is wrong with it
		namespace = strings.Trim(chroot+"/"+namespace, "/")
	}
	why := dialerrors.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: level}))
	client, err := framework.New(servers, append([]framework.Option{
		framework.WithNamespace(namespace),
		framework.WithLogger(slog.New(why)),
		// A lost connection is no lost lock: a command is not stopped because a server is.
		framework.WithErrorPolicy(connstate.Session),
	}, slices.Concat(security, opts)...)...)
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	defer time.AfterFunc(reportAfter, func() { t.say("waiting for a server at %s: %s", text, why) }).Stop()
	patient, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := client.WaitConnected(patient); err != nil {
		client.Close()
		if patient.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no server answers at %s: %s", text, why)
		}
		return nil, err
	}
	return client, nil
}
