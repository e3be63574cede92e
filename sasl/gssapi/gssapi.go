// Package gssapi authenticates clients of ZooKeeper with Kerberos: the SASL mechanism GSSAPI (RFC 4752). It is a module
// of its own, so users of the library do not inherit its dependencies.
//
//	mechanism := gssapi.Keytab("orders/host7.example.com@EXAMPLE.COM", "/etc/orders.keytab")
//	client, err := framework.New(servers, framework.WithSASL(mechanism))
//
// In access lists the scheme is "sasl" and the id is the principal, as the servers shorten it
// (kerberos.removeHostFromPrincipal and kerberos.removeRealmFromPrincipal).
//
// # Servers
//
// A server's principal is zookeeper/<host>, where host is the server's name in the list of servers, in lower case. It is
// not looked up in DNS. Java's client does that; see [WithHost].
//
// # Tickets
//
// The ticket for a server is kept for five sixths of the time that is left to it, and used for each connection to that
// server. So most connections need no KDC. If a server has not accepted the ticket, because its key is a new one, the KDC
// is asked for another ticket after at most 30 seconds. After the KDC has refused the login, or has no such server, it is
// asked again after 30 seconds. The keytab, the credentials cache and krb5.conf are read each time that a KDC is asked.
//
// # Errors
//
// If the KDC or the server refuses the client, calls fail with zk.ErrAuthFailed and the reason, such as
// KDC_ERR_PREAUTH_FAILED (a wrong password or key), KDC_ERR_C_PRINCIPAL_UNKNOWN (no such client), and
// KDC_ERR_S_PRINCIPAL_UNKNOWN (no such server). A KDC that cannot be reached counts as a server that cannot be reached:
// calls are tried again, and then wrap zk.ErrNoServer.
//
// # Limits
//
// Nothing after the login is signed or encrypted, as with each client of ZooKeeper: use TLS for that.
//
// Kerberos itself is github.com/jcmturner/gokrb5, the only complete implementation in Go; Go's clients of Kafka, HDFS
// and PostgreSQL use it, too. Its last release is of 2023. The server must have a key for AES with SHA-1
// (aes256-cts-hmac-sha1-96 or aes128-cts-hmac-sha1-96). In krb5.conf it ignores include, and it asks DNS for KDCs only with
// dns_lookup_kdc. It does not end a request to a KDC early: one that is not answered ends after 5 s for each KDC and
// protocol, in the background if the connection was given up before.
//
// Tested with MIT's KDC over TCP, with one realm. Not tested: servers in another realm than the client (cross-realm tickets), KDCs over
// UDP, and other KDCs, such as Active Directory and Heimdal.
package gssapi

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/gocurator/curator/sasl"
)

// Keytab logs in as principal with its key in a file. A principal is a name with a realm, alice@EXAMPLE.COM; without
// one it has the default realm of krb5.conf.
func Keytab(principal, file string, opts ...Option) sasl.Mechanism {
	return build(principal, withKeytab(principal, file), opts)
}

// Password logs in as principal with its password, which is not sent. See [Keytab] for principals.
func Password(principal, password string, opts ...Option) sasl.Mechanism {
	return build(principal, withPassword(principal, password), opts)
}

// CredentialsCache uses the ticket that kinit has left in a file: for programs that a person runs. When that ticket has
// expired, connections fail until there is another one in the file. The file may be named as in $KRB5CCNAME, FILE:/tmp/x;
// caches that are not files cannot be used.
func CredentialsCache(file string, opts ...Option) sasl.Mechanism {
	file = strings.TrimPrefix(file, "FILE:")
	return build(file, withCache(file), opts)
}

// Option changes how a client authenticates itself.
type Option func(*mechanism)

// WithService sets the first part of the servers' principals, which is "zookeeper" by default
// (zookeeper.sasl.client.username).
func WithService(name string) Option {
	return func(m *mechanism) { m.service = name }
}

// WithHost sets the second part of the servers' principals: host returns it for a server's name in the list of servers.
// nil is the name itself. It is called for each connection, must return when ctx is done, and may be called by several
// goroutines at once. With an error the server is not used. If the list has addresses, or names that are aliases, it can
// look up the name that the server has itself, as Java's client does: see the example. Then whoever can change what DNS
// answers chooses which server of the realm is trusted.
func WithHost(host func(ctx context.Context, host string) (string, error)) Option {
	return func(m *mechanism) { m.host = host }
}

// WithConfig names the krb5.conf, which has the realms and their KDCs. The default is $KRB5_CONFIG, or /etc/krb5.conf.
func WithConfig(file string) Option {
	return func(m *mechanism) { m.config = file }
}

// mechanism is a sasl.Mechanism.
type mechanism struct {
	who     string // logs in
	service string
	host    func(ctx context.Context, host string) (string, error) // nil: the same
	config  string                                                 // a file
	tickets tickets
}

func build(who string, login login, opts []Option) *mechanism {
	m := &mechanism{who: who, service: "zookeeper", config: cmp.Or(os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf")}
	for _, opt := range opts {
		opt(m)
	}
	m.tickets.ask = func(service, host string) (*ticket, error) { return askKDC(m.config, login, service, host) }
	return m
}

func (*mechanism) Name() string { return "GSSAPI" }

// String keeps the password out of logs.
func (m *mechanism) String() string { return "GSSAPI as " + m.who }

func (m *mechanism) Start(ctx context.Context, host string) ([]byte, func([]byte) ([]byte, bool, error), error) {
	if m.host != nil {
		var err error
		if host, err = m.host(ctx, host); err != nil {
			return nil, nil, fmt.Errorf("host name: %w", err)
		}
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	t, err := m.tickets.get(ctx, m.service, host)
	if err != nil {
		return nil, nil, fmt.Errorf("ticket of %s for %s/%s: %w", m.who, m.service, host, err)
	}
	e, first, err := begin(t)
	if err != nil {
		return nil, nil, err
	}
	return first, func(token []byte) ([]byte, bool, error) {
		answer, err := e.answer(token)
		if err == nil {
			m.tickets.accepted(m.service, host, t)
		}
		return answer, true, err
	}, nil
}
