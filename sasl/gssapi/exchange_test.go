package gssapi

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	krb5gss "github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"
)

// acceptor is the server's side, on the library's types.
type acceptor struct {
	keys   *keytab.Keytab
	name   types.PrincipalName
	subkey types.EncryptionKey
	number int64 // the first of the client's tokens
}

// newAcceptor returns a server, and a client's ticket for it.
func newAcceptor(t *testing.T, kind int32) (*acceptor, *ticket) {
	t.Helper()
	a := &acceptor{keys: keytab.New(), name: types.NewPrincipalName(nametype.KRB_NT_SRV_HST, "zookeeper/host")}
	now := time.Now().UTC()
	require.NoError(t, a.keys.AddEntry("zookeeper/host", "EXAMPLE.COM", "server's", now, 1, kind))
	alice := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "alice")
	issued, key, err := messages.NewTicket(alice, "EXAMPLE.COM", a.name, "EXAMPLE.COM", types.NewKrbFlags(), a.keys, kind, 1, now, now, now.Add(time.Hour), now)
	require.NoError(t, err)
	return a, &ticket{client: alice, realm: "EXAMPLE.COM", ticket: issued, key: key, end: now.Add(time.Hour)}
}

// started returns a server, a client's ticket for it, and an exchange whose first token the server
// has read.
func started(t *testing.T) (*acceptor, *ticket, *exchange) {
	t.Helper()
	a, ticket := newAcceptor(t, etypeID.AES256_CTS_HMAC_SHA1_96)
	e, first, err := begin(ticket)
	require.NoError(t, err)
	a.accept(t, first)
	return a, ticket, e
}

// accept reads the client's first token and returns its content.
func (a *acceptor) accept(t *testing.T, token []byte) types.Authenticator {
	t.Helper()
	var initial spnego.KRB5Token
	require.NoError(t, initial.Unmarshal(token))
	require.True(t, initial.IsAPReq())
	ok, err := initial.APReq.Verify(a.keys, time.Minute, types.HostAddress{}, &a.name)
	require.NoError(t, err)
	require.True(t, ok)
	auth := initial.APReq.Authenticator
	a.subkey, a.number = auth.SubKey, auth.SeqNumber
	return auth
}

// offer is a token with the layers that the server offers.
func (a *acceptor) offer(t *testing.T, flags byte, payload ...byte) []byte {
	t.Helper()
	return sign(t, a.subkey, keyusage.GSSAPI_ACCEPTOR_SEAL, krb5gss.WrapToken{Flags: flags, Payload: payload})
}

func sign(t *testing.T, key types.EncryptionKey, usage uint32, w krb5gss.WrapToken) []byte {
	t.Helper()
	require.NoError(t, w.SetCheckSum(key, usage))
	w.EC = uint16(len(w.CheckSum))
	token, err := w.Marshal()
	require.NoError(t, err)
	return token
}

func TestTheServerLearnsWhoTheClientIsAndThatItWantsNoLayer(t *testing.T) {
	for _, kind := range []int32{etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			a, ticket := newAcceptor(t, kind)
			e, first, err := begin(ticket)
			require.NoError(t, err)
			auth := a.accept(t, first)
			require.Equal(t, "alice", auth.CName.PrincipalNameString())
			require.Equal(t, "EXAMPLE.COM", auth.CRealm)
			require.Equal(t, kind, auth.SubKey.KeyType)
			require.NotEqual(t, ticket.key.KeyValue, auth.SubKey.KeyValue)
			require.Equal(t, int32(0x8003), auth.Cksum.CksumType)
			require.Equal(t, "10000000"+"00000000000000000000000000000000"+"20000000", hex.EncodeToString(auth.Cksum.Checksum), "integrity, no bindings")

			token, err := e.answer(a.offer(t, 1, 1, 0, 0, 0))
			require.NoError(t, err)
			var answer krb5gss.WrapToken
			require.NoError(t, answer.Unmarshal(token, false))
			ok, err := answer.Verify(a.subkey, keyusage.GSSAPI_INITIATOR_SEAL)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, []byte{1, 0, 0, 0}, answer.Payload)
			require.Equal(t, uint64(a.number), answer.SndSeqNum)
			require.Zero(t, answer.Flags)

			_, again, err := begin(ticket)
			require.NoError(t, err)
			require.NotEqual(t, auth.SubKey.KeyValue, a.accept(t, again).SubKey.KeyValue, "each exchange has a separate key")
		})
	}
}

func TestAnOfferOfSeveralLayersIsAnsweredWithNone(t *testing.T) {
	a, _, e := started(t)
	_, err := e.answer(a.offer(t, 1, 7, 0, 0xff, 0xff))
	require.NoError(t, err)
}

func TestServersThatCannotBeTrustedAreRefused(t *testing.T) {
	a, ticket, e := started(t)
	offer := krb5gss.WrapToken{Flags: 1, Payload: []byte{1, 0, 0, 0}}
	altered := a.offer(t, 1, 7, 0, 0, 0)
	altered[16] = 1
	earlier, earlierFirst, err := begin(ticket)
	require.NoError(t, err)
	(&acceptor{keys: a.keys, name: a.name}).accept(t, earlierFirst)
	for name, test := range map[string]struct {
		token []byte
		text  string
	}{
		"set up without Kerberos":      {nil, "the server might not support Kerberos"},
		"no token":                     {[]byte("realm="), "shorter than header"},
		"another token":                {append([]byte{4, 4}, make([]byte, 30)...), "wrong Token ID"},
		"cut":                          {a.offer(t, 1, 1, 0, 0, 0)[:20], "inconsistent checksum length"},
		"altered":                      {altered, "not signed"},
		"without the server's key":     {sign(t, ticket.key, keyusage.GSSAPI_ACCEPTOR_SEAL, offer), "not signed"},
		"of another exchange":          {sign(t, earlier.subkey, keyusage.GSSAPI_ACCEPTOR_SEAL, offer), "not signed"},
		"the client's own, reflected":  {sign(t, a.subkey, keyusage.GSSAPI_INITIATOR_SEAL, krb5gss.WrapToken{Payload: []byte{1, 0, 0, 0}}), "acceptor flag"},
		"signed as a client":           {sign(t, a.subkey, keyusage.GSSAPI_INITIATOR_SEAL, offer), "not signed"},
		"sealed":                       {a.offer(t, 1|2, 1, 0, 0, 0), "flags 0x3"},
		"with a key that it has given": {a.offer(t, 1|4, 1, 0, 0, 0), "flags 0x5"},
		"a layer is required":          {a.offer(t, 1, 2|4, 0, 0xff, 0xff), "requires a security layer (0x6)"},
		"too short":                    {a.offer(t, 1, 1), "has 1 bytes"},
		"too long":                     {a.offer(t, 1, 1, 0, 0, 0, 0), "has 5 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := e.answer(test.token)
			require.ErrorContains(t, err, test.text)
			require.Nil(t, answer)
		})
	}
}

func TestATicketWithAWeakKeyIsNotUsed(t *testing.T) {
	_, ticket := newAcceptor(t, etypeID.RC4_HMAC)
	_, _, err := begin(ticket)
	require.EqualError(t, err, "encryption type 23 of the ticket's key is not AES with SHA-1 (17 or 18)")
}

// TestTheSignatureOfRFC4121 has a token whose signature was computed without the library: HMAC-SHA1
// over the payload and the header, with the key's checksum key for usage 24 (RFC 3961, 3962 and
// 4121).
func TestTheSignatureOfRFC4121(t *testing.T) {
	key, err := hex.DecodeString("14f9bde6b50ec508201a97f74c4e5bd3")
	require.NoError(t, err)
	e := &exchange{types.EncryptionKey{KeyType: etypeID.AES128_CTS_HMAC_SHA1_96, KeyValue: key}, 1}
	token, err := e.wrap(noLayerChosen)
	require.NoError(t, err)
	require.Equal(t, "050400ff000c0000"+"0000000000000001"+"01000000"+"8452d947c68dcd7f38e370a9", hex.EncodeToString(token))
}

func FuzzAnswer(f *testing.F) {
	e := &exchange{types.EncryptionKey{KeyType: etypeID.AES128_CTS_HMAC_SHA1_96, KeyValue: make([]byte, 16)}, 1}
	f.Add([]byte{5, 4, 1, 0xff, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, token []byte) {
		_, err := e.answer(token)
		require.Error(t, err)
	})
}
