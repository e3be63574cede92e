// Package sasl provides SASL mechanisms for [framework.WithSASL]: DIGEST-MD5 here, and Kerberos in
// the module sasl/gssapi.
//
//	client, err := framework.New(servers, framework.WithSASL(sasl.DigestMD5("orders", password)))
//
// [framework.WithSASL]: https://pkg.go.dev/github.com/gocurator/curator/framework#WithSASL
package sasl

import (
	"context"

	"github.com/gocurator/curator/internal/sasl"
)

// Mechanism authenticates a client to a server. Its methods must be safe for concurrent use.
type Mechanism interface {
	// Name returns the mechanism's name, for errors.
	Name() string

	// Start begins an exchange with the server at host, a name without a port. It returns the
	// client's first token, which may be empty, and next, which returns the client's reply to each
	// token of the server. Start must return when ctx is done, and next must not block.
	//
	// If next reports done without a reply, the exchange has succeeded. If it reports done with a
	// reply, the exchange succeeds when the server has accepted that reply.
	//
	// An error of Start counts as refused credentials, unless it wraps zk.ErrNoServer. That error
	// means that a server which the mechanism needs, such as a Kerberos KDC, could not be reached.
	// Operations are then retried.
	Start(ctx context.Context, host string) (first []byte, next func(token []byte) (answer []byte, done bool, err error), err error)
}

// DigestMD5 returns the mechanism DIGEST-MD5. It is for servers whose users and passwords are
// listed in a JAAS file (DigestLoginModule). Use it with TLS: MD5 is weak, and the connection is
// neither encrypted nor signed.
//
// The password is not sent. The client refuses a server that does not know the password. ZooKeeper
// 3.9.6 refuses the mechanism by default (FIPS mode); zookeeper.fips-mode=false allows it.
// ZooKeeper 3.8.0 accepts an unknown user name with the password of the previous login; 3.9.6 does
// not.
func DigestMD5(user, password string) Mechanism { return sasl.Client{User: user, Password: password} }
