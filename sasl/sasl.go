// Package sasl has mechanisms of SASL for [framework.WithSASL]: DIGEST-MD5 here, and Kerberos in the module sasl/gssapi.
//
//	client, err := framework.New(servers, framework.WithSASL(sasl.DigestMD5("orders", password)))
//
// [framework.WithSASL]: https://pkg.go.dev/github.com/gocurator/curator/framework#WithSASL
package sasl

import (
	"context"

	"github.com/gocurator/curator/internal/sasl"
)

// Mechanism is a mechanism by which a client authenticates itself. Its methods must be safe for concurrent use.
type Mechanism interface {
	// Name is that of the mechanism, for errors.
	Name() string

	// Start begins an exchange with the server at host: a name without a port. first is the client's first token, which may be
	// empty. next is called with each token of the server, and returns the client's next one. With done and no answer the exchange
	// has succeeded; with done and an answer, it succeeds when the server has accepted that. Start must return when ctx is done,
	// and next must not block.
	//
	// An error of Start counts as refused credentials, unless it wraps zk.ErrNoServer: then a server that the mechanism needs
	// cannot be reached, such as a Kerberos KDC, and calls are tried again.
	Start(ctx context.Context, host string) (first []byte, next func(token []byte) (answer []byte, done bool, err error), err error)
}

// DigestMD5 is the mechanism DIGEST-MD5, for servers that have users and passwords in a JAAS file (DigestLoginModule). The
// password is not sent. The servers must know it: a server that does not is refused. Use it with TLS: MD5 is weak, and what
// follows is neither encrypted nor signed. Newer servers refuse it in FIPS mode, which is the default of ZooKeeper 3.9.6:
// zookeeper.fips-mode=false allows it. Tested with ZooKeeper 3.8.0 and 3.9.6. ZooKeeper 3.8.0 has a flaw: with the password of
// whoever has logged in before, it lets in any user that it does not have, under that name; 3.9.6 does not.
func DigestMD5(user, password string) Mechanism { return sasl.Client{User: user, Password: password} }
