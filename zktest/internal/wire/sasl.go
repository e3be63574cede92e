package wire

import (
	"fmt"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/sasl"
)

// saslExchange is the state of a connection's authentication by SASL.
type saslExchange struct {
	nonce string // the nonce of the last challenge; empty: none
	user  string // empty: not authenticated
}

// challenge answers the first token of a client. The number makes the nonce unique. Tests have no
// secrets.
func (x *saslExchange) challenge(session int64, number int) proto.Record {
	x.nonce = fmt.Sprintf("zktest-%x-%d", session, number)
	return &proto.SASLToken{Token: sasl.Challenge(sasl.Realm, x.nonce)}
}

// check answers the second token of a client, and notes its user.
func (x *saslExchange) check(token []byte, s *Security) (proto.Record, proto.Code) {
	said, user, err := sasl.Check(token, sasl.Realm, x.nonce, func(user string) (string, bool) {
		password, known := s.SASLUsers[user]
		return password, known
	})
	switch {
	case err == nil && x.nonce != "":
		*x = saslExchange{user: user}
		return &proto.SASLToken{Token: said}, proto.OK
	case s.RequireSASL:
		return nil, proto.SessionClosedRequireSASL
	}
	return nil, proto.AuthFailed
}

// barred reports whether the client has to authenticate itself before a request of this kind.
func (x *saslExchange) barred(s *Security, op proto.Op) bool {
	return s.RequireSASL && x.user == "" && op != proto.OpSASL && op != proto.OpAuth
}
