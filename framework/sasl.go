package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/opt"
	"github.com/gocurator/curator/internal/sasl"
)

// SASL is a mechanism by which a client authenticates itself: see [WithSASL] and [DigestMD5]. Kerberos is in the module
// sasl/gssapi. Its methods must be safe for concurrent use.
type SASL interface {
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

// WithSASL has the client authenticate itself on each connection by a mechanism of SASL, before it presents the credentials of
// [WithAuth]. The scheme in ACLs is "sasl". A server that refuses it is not used, nor is one whose token the mechanism refuses.
// Calls then fail with zk.ErrAuthFailed and the mechanism's name. A server that hangs up without an answer counts as one that
// cannot be reached: ClickHouse Keepers, which know nothing of SASL, and old ZooKeepers after a wrong password.
func WithSASL(mechanism SASL) Option {
	start := func(ctx context.Context, host string) (*conn.SASL, error) { return startSASL(ctx, mechanism, host) }
	return opt.Checked(mechanism != nil, func(c *config) { c.SASL = start }, "nil SASL mechanism")
}

// DigestMD5 is the mechanism DIGEST-MD5, for servers that have users and passwords in a JAAS file (DigestLoginModule). The
// password is not sent. The servers must know it: a server that does not is refused. Use it with TLS: MD5 is weak, and what
// follows is neither encrypted nor signed. Newer servers refuse it in FIPS mode, which is the default of ZooKeeper 3.9.6:
// zookeeper.fips-mode=false allows it. Tested with ZooKeeper 3.8.0 and 3.9.6. ZooKeeper 3.8.0 has a flaw: with the password of
// whoever has logged in before, it lets in any user that it does not have, under that name; 3.9.6 does not.
func DigestMD5(user, password string) SASL { return sasl.Client{User: user, Password: password} }

// startSASL begins an exchange with the server at host.
func startSASL(ctx context.Context, mechanism SASL, host string) (*conn.SASL, error) {
	first, next, err := mechanism.Start(ctx, host)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, zk.ErrNoServer)):
		return nil, fmt.Errorf("SASL %s: %w", mechanism.Name(), err)
	case err != nil:
		return nil, fmt.Errorf("SASL %s: %w: %w", mechanism.Name(), zk.ErrAuthFailed, err)
	}
	return &conn.SASL{Name: mechanism.Name(), First: first, Next: next}, nil
}
