package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/dialerrors"
)

// Connection contains the connection flags of a command.
type Connection struct {
	Verbose bool
	Timeout time.Duration // maximum wait for a server

	servers, namespace string
	auth               []string // each is credentials, or a file with them
	tls                bool
	files              tlsFiles
	serverName         string
	creates            bool   // the command creates nodes and has --acl
	acl                string // the ACL of these nodes; "" is the client's default
}

// prefix returns the prefix of a program's environment variables, such as ZKLOCK_ for zklock.
func (a *App) prefix() string { return strings.ToUpper(a.Name) + "_" }

// Flags defines the connection flags. An unset flag defaults to its environment variable.
func (c *Connection) Flags(a *App, fs *pflag.FlagSet) {
	env := func(usage, name string) string { return usage + " ($" + a.prefix() + name + ")" }
	fs.StringVar(&c.servers, "servers", "", env("`host:port,...` of the ensemble, with a /chroot or without; 127.0.0.1:2181 by default", "SERVERS"))
	fs.StringVar(&c.namespace, "namespace", "", env("`path` without its first slash below which all paths are", "NAMESPACE"))
	fs.StringArrayVar(&c.auth, "auth", nil, env("present `credentials`: digest:user:password, sasl:user:password for DIGEST-MD5, or @file with one on each line; repeatable", "AUTH"))
	fs.BoolVar(&c.tls, "tls", false, env("use TLS", "TLS=true"))
	fs.StringVar(&c.files.authorities, "cacert", "", env("PEM `file` with the authorities of the servers' certificates; the system's by default", "CACERT"))
	fs.StringVar(&c.files.cert, "cert", "", env("PEM `file` with the client's certificate", "CERT"))
	fs.StringVar(&c.files.key, "key", "", env("PEM `file` with the key of --cert", "KEY"))
	fs.StringVar(&c.serverName, "tls-server-name", "", env("`name` in the servers' certificates, if it differs from the host in --servers", "TLS_SERVER_NAME"))
	Duration(fs, &c.Timeout, "connect", "", 30*time.Second, "give up after this time without a server")
	fs.BoolVarP(&c.Verbose, "verbose", "v", false, "print what the connection does, and who is ahead while waiting, on standard error")
}

// ACLFlag defines the flag --acl for the nodes that the command creates.
func (c *Connection) ACLFlag(a *App, fs *pflag.FlagSet) {
	c.creates = true
	fs.StringVar(&c.acl, "acl", "", "`list` for created nodes, as in zkCli; creator is auth::cdrwa; world:anyone:cdrwa by default ($"+a.prefix()+"ACL)")
}

// fromEnvironment sets flags that are not on the command line from the environment.
func (c *Connection) fromEnvironment(a *App) error {
	for name, value := range map[string]*string{
		"SERVERS":         &c.servers,
		"NAMESPACE":       &c.namespace,
		"CACERT":          &c.files.authorities,
		"CERT":            &c.files.cert,
		"KEY":             &c.files.key,
		"TLS_SERVER_NAME": &c.serverName,
		"ACL":             &c.acl,
	} {
		*value = cmp.Or(*value, os.Getenv(a.prefix()+name))
	}
	if text := os.Getenv(a.prefix() + "AUTH"); text != "" && len(c.auth) == 0 {
		c.auth = []string{text}
	}
	if text := os.Getenv(a.prefix() + "TLS"); text != "" && !c.tls {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return UsageError("invalid %sTLS %q: must be true or false", a.prefix(), text)
		}
		c.tls = on
	}
	return nil
}

// security returns the options of a client for --auth, --acl and --tls.
func (c *Connection) security() ([]framework.Option, error) {
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
			return nil, UsageError("--acl: creator and auth require --auth or --cert")
		}
		opts = append(opts, framework.WithACLProvider(func(string) []zk.ACL { return acl }))
	}
	if !c.tls && (c.files != tlsFiles{} || c.serverName != "") {
		return nil, UsageError("--cacert, --cert, --key and --tls-server-name require --tls")
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

// Client is a client that can report its servers in messages.
type Client struct {
	*framework.Client
	servers string
	why     *dialerrors.Handler
}

// New returns a client, without waiting for a connection. It fails with [ExitUsage] if a flag is
// invalid.
func (c *Connection) New(a *App, opts ...framework.Option) (*Client, error) {
	if c.Timeout <= 0 {
		return nil, UsageError("--connect %v is not positive", c.Timeout)
	}
	if err := c.fromEnvironment(a); err != nil {
		return nil, err
	}
	security, err := c.security()
	if err != nil {
		return nil, err
	}
	level := slog.LevelWarn
	if c.Verbose {
		level = slog.LevelDebug
	}
	text := cmp.Or(c.servers, "127.0.0.1:2181")
	servers, chroot, err := framework.ParseConnectString(text)
	if err != nil {
		return nil, UsageError("--servers: %w", err)
	}
	namespace := c.namespace
	if chroot != "" && !strings.HasPrefix(namespace, "/") { // otherwise the client reports the error
		namespace = strings.Trim(chroot+"/"+namespace, "/")
	}
	why := dialerrors.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level}))
	client, err := framework.New(servers, slices.Concat([]framework.Option{
		framework.WithNamespace(namespace),
		framework.WithLogger(slog.New(why)),
	}, security, opts)...)
	if err != nil {
		return nil, &Exit{ExitUsage, err}
	}
	return &Client{client, text, why}, nil
}

// reportAfter is the time after which a command reports that it waits for a server.
const reportAfter = 2 * time.Second

// Connect returns a connected client. It fails if no server answers within the time of --connect,
// or if ctx is done first.
func (c *Connection) Connect(ctx context.Context, a *App, opts ...framework.Option) (*framework.Client, error) {
	client, err := c.New(a, opts...)
	if err != nil {
		return nil, err
	}
	if err := client.await(ctx, a, c.Timeout); err != nil {
		client.Close()
		return nil, err
	}
	return client.Client, nil
}

func (c *Client) await(ctx context.Context, a *App, timeout time.Duration) error {
	defer time.AfterFunc(reportAfter, func() { a.Say("waiting for a server at %s: %s", c.servers, c.why) }).Stop()
	patient, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := c.WaitConnected(patient)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no server answers at %s: %s", c.servers, c.why)
	}
	return err
}
