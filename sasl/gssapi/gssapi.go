// Package gssapi authenticates clients of ZooKeeper with Kerberos: the SASL mechanism GSSAPI (RFC
// 4752). It is a separate module, so users of the library do not inherit its dependencies.
//
//	mechanism := gssapi.Keytab("orders/host7.example.com@EXAMPLE.COM", "/etc/orders.keytab")
//	client, err := framework.New(servers, framework.WithSASL(mechanism))
//
// In access lists the scheme is "sasl" and the id is the principal, as the servers shorten it
// (kerberos.removeHostFromPrincipal and kerberos.removeRealmFromPrincipal).
//
// # Servers
//
// A server's principal is zookeeper/<host>, where host is the server's name in the list of servers,
// in lower case. Unlike Java's client, this package does not look up the name in DNS: see
// [WithHost].
//
// # Tickets
//
// The ticket for a server is kept for five sixths of its remaining lifetime, and used for each
// connection to that server, so most connections need no KDC. If a server has not accepted the
// ticket, because its key has changed, another ticket is requested after at most 30 seconds. After
// the KDC has refused the login, or does not know the server, the KDC is asked again after 30
// seconds. The keytab, the credentials cache and krb5.conf are read before each request to a KDC.
//
// # Errors
//
// If the KDC or the server refuses the client, calls fail with zk.ErrAuthFailed and the reason:
// KDC_ERR_PREAUTH_FAILED (a wrong password or key), KDC_ERR_C_PRINCIPAL_UNKNOWN (an unknown client)
// or KDC_ERR_S_PRINCIPAL_UNKNOWN (an unknown server). An unreachable KDC counts as an unreachable
// server: calls are retried, and then wrap zk.ErrNoServer.
//
// # Limits
//
// After the login nothing is signed or encrypted, as with every client of ZooKeeper: use TLS.
//
// Kerberos itself is github.com/jcmturner/gokrb5, last released in 2023. The server must have a key
// for AES with SHA-1 (aes256-cts-hmac-sha1-96 or aes128-cts-hmac-sha1-96). gokrb5 ignores include
// in krb5.conf, and asks DNS for KDCs only with dns_lookup_kdc. It does not cancel a request to a
// KDC: an unanswered request ends after 5 s for each KDC and protocol, in the background if the
// connection was given up.
//
// Tested with MIT's KDC over TCP, with one realm. Not tested: servers in another realm (cross-realm
// tickets), KDCs over UDP, and other KDCs, such as Active Directory and Heimdal.
package gssapi

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/gocurator/curator/sasl"
)

// Keytab returns a mechanism that logs in as principal with its key from a keytab file. A principal
// is a name with a realm, such as alice@EXAMPLE.COM. If it contains no realm, the default realm of
// krb5.conf is used.
func Keytab(principal, file string, opts ...Option) sasl.Mechanism {
	return build(principal, withKeytab(principal, file), opts).mechanism()
}

// Password returns a mechanism that logs in as principal with its password, which is not sent. A
// principal is a name with a realm, such as alice@EXAMPLE.COM. If it contains no realm, the default
// realm of krb5.conf is used.
func Password(principal, password string, opts ...Option) sasl.Mechanism {
	return build(principal, withPassword(principal, password), opts).mechanism()
}

// CredentialsCache returns a mechanism that uses the ticket that kinit has written to file. It is
// for interactive programs. When the ticket has expired, connections fail until the file contains a
// new ticket.
//
// The file may be named as in $KRB5CCNAME, such as FILE:/tmp/x; other kinds of caches are not
// supported.
func CredentialsCache(file string, opts ...Option) sasl.Mechanism {
	file = strings.TrimPrefix(file, "FILE:")
	return build(file, withCache(file), opts).mechanism()
}

// Option configures a mechanism of this package.
type Option func(*mechanism)

// WithService sets the service name, which is the first part of the servers' principals. The
// default is "zookeeper". It is Java's zookeeper.sasl.client.username.
func WithService(name string) Option {
	return func(m *mechanism) { m.service = name }
}

// WithHost sets the function that determines the host part of a server's principal. Its argument is
// the server's host name in the list of servers. If the function returns an error, the connection
// to that server fails.
//
// The function is called for each connection. It must return when ctx is done, and must be safe for
// concurrent use.
//
// The example looks up the server's canonical name, like Java's client. An attacker who controls
// DNS can then choose which server is trusted.
func WithHost(host func(ctx context.Context, host string) (string, error)) Option {
	return func(m *mechanism) { m.host = host }
}

// WithConfig sets the path of krb5.conf, which lists the realms and their KDCs. The default is
// $KRB5_CONFIG, or /etc/krb5.conf if that is not set.
func WithConfig(file string) Option {
	return func(m *mechanism) { m.config = file }
}

// mechanism holds the parameters and the tickets of a sasl.Mechanism.
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

func (m *mechanism) mechanism() sasl.Mechanism { return sasl.Mechanism{Name: "GSSAPI", Start: m.start} }

func (m *mechanism) start(ctx context.Context, server sasl.Server) (sasl.Exchange, error) {
	host := server.Host
	if m.host != nil {
		var err error
		if host, err = m.host(ctx, host); err != nil {
			return sasl.Exchange{}, fmt.Errorf("host part of the principal: %w", err)
		}
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	t, err := m.tickets.get(ctx, m.service, host)
	if err != nil {
		return sasl.Exchange{}, fmt.Errorf("ticket of %s for %s/%s: %w", m.who, m.service, host, err)
	}
	e, first, err := begin(t)
	if err != nil {
		return sasl.Exchange{}, err
	}
	return sasl.Exchange{First: first, Next: func(token []byte) ([]byte, bool, error) {
		answer, err := e.answer(token)
		if err == nil {
			m.tickets.accepted(m.service, host, t)
		}
		return answer, true, err
	}}, nil
}
