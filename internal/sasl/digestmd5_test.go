package sasl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheExampleOfTheRFC has the values of RFC 2831, section 4.
func TestTheExampleOfTheRFC(t *testing.T) {
	l := Login{
		User: "chris", Realm: "elwood.innosoft.com", Password: "secret",
		Nonce: "OA6MG9tEQGm2hh", Cnonce: "OA6MHXh6VqTrRk", URI: "imap/elwood.innosoft.com",
	}
	require.Equal(t, "d388dad90d4bbd760a152321f2143af7", l.Response())
	require.Equal(t, "ea40f60335c427b5527b84dbabcdfffd", l.RspAuth())
}

func TestALoginSucceedsWithTheRightPasswordOnly(t *testing.T) {
	users := map[string]string{"bob": "secret", `o"k\`: `p"w\`, "jörg": "größe", "李": "密码"}
	password := func(user string) (string, bool) { p, ok := users[user]; return p, ok }
	challenge := Challenge(Realm, "n0nce")
	for user, right := range users {
		answer, login, err := Answer(challenge, user, right, "cn0nce")
		require.NoError(t, err)
		said, who, err := Check(answer, Realm, "n0nce", password)
		require.NoError(t, err, user)
		require.Equal(t, user, who)
		require.NoError(t, Confirm(said, login))
		login.Password = "other"
		require.EqualError(t, Confirm(said, login), "the server does not know the password")
		answer, _, err = Answer(challenge, user, "wrong", "cn0nce")
		require.NoError(t, err)
		_, _, err = Check(answer, Realm, "n0nce", password)
		require.EqualError(t, err, "wrong password")
	}
	answer, _, err := Answer(challenge, "bob", "secret", "cn0nce")
	require.NoError(t, err)
	for name, bad := range map[string][]byte{
		"another nonce": []byte(strings.Replace(string(answer), "n0nce", "other", 1)),
		"another user":  []byte(strings.Replace(string(answer), "bob", "eve", 1)),
		"another host":  []byte(strings.Replace(string(answer), Realm+`",maxbuf`, `other",maxbuf`, 1)),
		"used before":   []byte(strings.Replace(string(answer), "nc=00000001", "nc=00000002", 1)),
		"empty":         {},
		"nonsense":      []byte(`x`),
		"open quote":    []byte(`username="bob`),
		"not UTF-8":     {'a', '=', 0xff},
		"two responses": append(answer[:len(answer):len(answer)], ",response=x"...),
	} {
		_, _, err := Check(bad, Realm, "n0nce", password)
		require.Error(t, err, name)
	}
}

func TestChallengesThatCannotBeAnswered(t *testing.T) {
	for name, challenge := range map[string]string{
		"of a server without SASL": "", "without algorithm": `nonce="x"`, "another algorithm": `nonce="x",algorithm=sha-256`,
		"with encryption": `nonce="x",algorithm=md5-sess,qop="auth-int, auth-conf"`,
	} {
		_, _, err := Answer([]byte(challenge), "bob", "secret", "c")
		require.Error(t, err, name)
	}
	_, l, err := Answer([]byte(` realm="first", realm="second" ,nonce="x",qop="auth,auth-int",algorithm=md5-sess`), "bob", "secret", "c")
	require.NoError(t, err)
	require.Equal(t, "first", l.Realm)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`realm="a\"b",nonce=x , charset=utf-8`))
	f.Fuzz(func(t *testing.T, text []byte) { _, _ = parse(text) })
}
