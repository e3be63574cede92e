package gssapi

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	krb5gss "github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The exchange has two rounds. The client sends its ticket with a new key for this exchange, the
// subkey. The server answers with the security layers that it offers, signed with the subkey: so it
// has the key of the ticket's service, and has seen this ticket now. The client answers, signed as
// well, that it wants no layer and acts for no other user. The server authenticates itself
// by its signature, so the client does not ask for mutual authentication, which would cost another
// round. Java's client of ZooKeeper does the same.

// exchange is an exchange after the client's first token.
type exchange struct {
	subkey types.EncryptionKey
	number uint64 // the number of the next signed token
}

const (
	noLayer = 1 // the bit of RFC 4752, section 3.3

	sealed       = 2 // flags of RFC 4121, section 4.2.2
	serverSubkey = 4
)

// noLayerChosen is the client's reply: no layer, no maximum length, and no other user.
var noLayerChosen = []byte{noLayer, 0, 0, 0}

// begin returns the client's first token: the initial token of RFC 4121, section 4.1, in the frame
// of RFC 2743, section 3.1.
func begin(t *ticket) (*exchange, []byte, error) {
	if t.key.KeyType != etypeID.AES128_CTS_HMAC_SHA1_96 && t.key.KeyType != etypeID.AES256_CTS_HMAC_SHA1_96 {
		return nil, nil, fmt.Errorf("encryption type %d of the ticket's key is not AES with SHA-1 (17 or 18)", t.key.KeyType)
	}
	auth, err := types.NewAuthenticator(t.realm, t.client)
	if err != nil {
		return nil, nil, err
	}
	if err := auth.GenerateSeqNumberAndSubKey(t.key.KeyType, len(t.key.KeyValue)); err != nil {
		return nil, nil, err
	}
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: checksum(krb5gss.ContextFlagInteg)}
	request, err := messages.NewAPReq(t.ticket, t.key, auth)
	if err != nil {
		return nil, nil, err
	}
	body, err := request.Marshal()
	if err != nil {
		return nil, nil, err
	}
	return &exchange{auth.SubKey, uint64(auth.SeqNumber)}, asn1tools.AddASNAppTag(append(initial[:len(initial):len(initial)], body...), 0), nil
}

// initial is the object identifier of Kerberos, and the number of the token.
var initial = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01, 0x00}

// checksum returns the checksum of an authenticator in GSS-API: flags, and no channel bindings (RFC
// 4121, section 4.1.1).
func checksum(flags uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 16)
	b = append(b, make([]byte, 16)...)
	return binary.LittleEndian.AppendUint32(b, flags)
}

// answer returns the client's answer to the layers that the server offers.
func (e *exchange) answer(token []byte) ([]byte, error) {
	offer, err := e.unwrap(token)
	switch {
	case err != nil:
		return nil, err
	case len(offer) != 4:
		return nil, fmt.Errorf("the server's offer of security layers has %d bytes, must have 4", len(offer))
	case offer[0]&noLayer == 0:
		return nil, fmt.Errorf("the server requires a security layer (%#x)", offer[0])
	}
	return e.wrap(noLayerChosen)
}

// unwrap verifies a signed token of the server and returns its payload.
func (e *exchange) unwrap(token []byte) ([]byte, error) {
	if len(token) == 0 {
		return nil, errors.New("the server's token is empty: the server might not support Kerberos")
	}
	var w krb5gss.WrapToken
	if err := w.Unmarshal(token, true); err != nil {
		return nil, fmt.Errorf("the server's token: %w", err)
	}
	if w.Flags&(sealed|serverSubkey) != 0 {
		return nil, fmt.Errorf("unexpected flags %#x in the server's token", w.Flags)
	}
	if ok, err := w.Verify(e.subkey, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok || err != nil {
		return nil, errors.New("the server's token is not signed with the subkey")
	}
	return w.Payload, nil
}

// wrap returns a signed token of the client.
func (e *exchange) wrap(payload []byte) ([]byte, error) {
	kind, err := crypto.GetEtype(e.subkey.KeyType)
	if err != nil {
		return nil, err
	}
	w := krb5gss.WrapToken{EC: uint16(kind.GetHMACBitLength() / 8), SndSeqNum: e.number, Payload: payload}
	if err := w.SetCheckSum(e.subkey, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, err
	}
	return w.Marshal()
}
