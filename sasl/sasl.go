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

// Mechanism authenticates a client to a server. It is a struct of functions, so that later versions
// can add to it.
type Mechanism struct {
	// Name is the mechanism's name, for errors.
	Name string

	// Start begins an exchange with a server. It must return when ctx is done, and must be safe for
	// concurrent use.
	//
	// An error counts as refused credentials, unless it wraps zk.ErrNoServer. That error means that
	// a server which the mechanism needs, such as a Kerberos KDC, could not be reached. Operations
	// are then retried.
	Start func(ctx context.Context, server Server) (Exchange, error)
}

// Server describes the server to which a client logs in.
type Server struct {
	Host string // the host in the list of servers, without a port
}

// Exchange is a login on one connection.
type Exchange struct {
	// First is the client's first token. It may be empty.
	First []byte

	// Next returns the client's reply to each token of the server. It must not block.
	//
	// If it reports done without a reply, the exchange has succeeded. If it reports done with a
	// reply, the exchange succeeds when the server has accepted that reply.
	Next func(token []byte) (reply []byte, done bool, err error)
}

// DigestMD5 returns the mechanism DIGEST-MD5. It is for servers whose users and passwords are
// listed in a JAAS file (DigestLoginModule). Use it with TLS: MD5 is weak, and the connection is
// neither encrypted nor signed.
//
// The password is not sent. The client refuses a server that does not know the password. ZooKeeper
// 3.9.6 refuses the mechanism by default (FIPS mode); zookeeper.fips-mode=false allows it.
// ZooKeeper 3.8.0 accepts an unknown user name with the password of the previous login; 3.9.6 does
// not.
func DigestMD5(user, password string) Mechanism {
	return Mechanism{Name: sasl.DigestMD5, Start: func(context.Context, Server) (Exchange, error) {
		next, err := sasl.Begin(user, password)
		return Exchange{First: []byte{}, Next: next}, err
	}}
}
