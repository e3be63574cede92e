package zktest

import (
	"errors"
	"fmt"
	"maps"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/sasl"
)

// WithSASL lets clients authenticate themselves by SASL with the mechanism DIGEST-MD5, as these users with these passwords, as
// a JAAS file with DigestLoginModule does. Access lists may then have the scheme "sasl", whose ids are user names. A client
// that fails is answered so (-115), and its connection is cut. Without it, SASL is answered with an empty token, as by a
// ZooKeeper without a JAAS file.
func WithSASL(users map[string]string) Option {
	return func(c *config) error {
		if len(users) == 0 {
			return errors.New("zktest: SASL without users")
		}
		c.saslUsers = maps.Clone(users)
		return nil
	}
}

// RequireSASL makes a server with [WithSASL] that serves nobody else, as sessionRequireClientSASLAuth does: a request before the
// client has authenticated itself is answered so (-124), and its connection is cut.
func RequireSASL() Option {
	return func(c *config) error {
		c.requireSASL = true
		return nil
	}
}

// checkSASL checks options that depend on each other.
func (c *config) checkSASL() error {
	if c.requireSASL && c.saslUsers == nil {
		return errors.New("zktest: RequireSASL needs WithSASL")
	}
	return nil
}

// saslExchange is what a connection knows of its client by SASL.
type saslExchange struct {
	nonce string // of the last challenge; empty: none
	user  string // empty: nobody yet
}

// barred reports whether the connection has to authenticate itself before a request of this kind.
func (c *conn) barred(op Op) bool {
	return c.server.cfg.requireSASL && c.sasl.user == "" && op != OpSASL && op != OpAuth
}

// authenticate answers a token of SASL. Server.mu is held.
func (c *conn) authenticate(token []byte) (proto.Record, proto.Code) {
	s := c.server
	switch {
	case s.refuses&credentials != 0:
		return nil, proto.AuthFailed
	case s.cfg.saslUsers == nil:
		return &proto.SASLToken{}, proto.OK
	case len(token) == 0:
		s.challenges++
		c.sasl.nonce = fmt.Sprintf("zktest-%x-%d", c.session.id, s.challenges) // tests have no secrets
		return &proto.SASLToken{Token: sasl.Challenge(sasl.Realm, c.sasl.nonce)}, proto.OK
	}
	said, user, err := sasl.Check(token, sasl.Realm, c.sasl.nonce, func(user string) (string, bool) {
		password, known := s.cfg.saslUsers[user]
		return password, known
	})
	if err != nil || c.sasl.nonce == "" {
		if s.cfg.requireSASL {
			return nil, proto.SessionClosedRequireSASL
		}
		return nil, proto.AuthFailed
	}
	c.sasl = saslExchange{user: user}
	c.who = addNew(c.who, identity{"sasl", user})
	return &proto.SASLToken{Token: said}, proto.OK
}
