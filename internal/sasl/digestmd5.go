// Package sasl implements the mechanism DIGEST-MD5 (RFC 2831) as ZooKeeper uses it, for both sides:
// authentication only ("auth"), and no second login with an old nonce.
package sasl

import (
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// DigestMD5 is the name of the mechanism.
	DigestMD5 = "DIGEST-MD5"

	// URI is ZooKeeper's name of its service. The host is a constant, and also the default realm.
	URI   = "zookeeper/" + Realm
	Realm = "zk-sasl-md5"
)

// Login contains the values on which both sides must agree.
type Login struct {
	User, Realm, Password string
	Nonce, Cnonce, URI    string // the server's and the client's random text, and the service
}

// Response proves that the client knows the password, RspAuth that the server does.
func (l Login) Response() string { return l.proof("AUTHENTICATE:" + l.URI) }
func (l Login) RspAuth() string  { return l.proof(":" + l.URI) }

// proof returns the response-value of RFC 2831, section 2.1.2.1.
func (l Login) proof(a2 string) string {
	secret := md5.Sum([]byte(latin1(l.User) + ":" + latin1(l.Realm) + ":" + latin1(l.Password)))
	a1 := string(secret[:]) + ":" + l.Nonce + ":" + l.Cnonce
	return sum(sum(a1) + ":" + l.Nonce + ":" + nonceCount + ":" + l.Cnonce + ":auth:" + sum(a2))
}

// nonceCount says that the client uses the nonce for the first time.
const nonceCount = "00000001"

// Begin begins the exchange of a client, whose first token is empty. next returns its replies.
func Begin(user, password string) (next func(token []byte) (reply []byte, done bool, err error), err error) {
	if err := usable(); err != nil {
		return nil, err
	}
	var l Login
	return func(token []byte) (reply []byte, done bool, err error) {
		if l.Nonce != "" {
			return nil, true, Confirm(token, l)
		}
		reply, l, err = Answer(token, user, password, rand.Text())
		return reply, false, err
	}, nil
}

// usable returns an error if this process must not use MD5 (GODEBUG=fips140=only). Every other use
// of MD5 here would panic then.
func usable() error {
	_, err := md5.New().Write(nil)
	return err
}

func sum(text string) string {
	b := md5.Sum([]byte(text))
	return hex.EncodeToString(b[:])
}

// latin1 returns text in ISO 8859-1 if it has only such characters, and otherwise text itself, in
// UTF-8, as the RFC requires.
func latin1(text string) string {
	b := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return text
		}
		b = append(b, byte(r))
	}
	return string(b)
}

// Challenge returns the server's first token.
func Challenge(realm, nonce string) []byte {
	return []byte("realm=" + quoted(realm) + ",nonce=" + quoted(nonce) + `,charset=utf-8,algorithm=md5-sess`)
}

// Answer returns the client's reply to a challenge, and its login. cnonce is random.
func Answer(challenge []byte, user, password, cnonce string) ([]byte, Login, error) {
	d, err := parse(challenge)
	switch {
	case err != nil:
		return nil, Login{}, err
	case d["nonce"] == "":
		return nil, Login{}, errors.New("the challenge has no nonce: the server might not be configured for SASL")
	case d["algorithm"] != "md5-sess":
		return nil, Login{}, fmt.Errorf("unsupported algorithm in the challenge: %q", d["algorithm"])
	case d["qop"] != "" && !offers(d["qop"], "auth"):
		return nil, Login{}, fmt.Errorf("unsupported protection in the challenge: %q", d["qop"])
	}
	l := Login{User: user, Realm: d["realm"], Password: password, Nonce: d["nonce"], Cnonce: cnonce, URI: URI}
	return []byte("charset=utf-8,username=" + quoted(l.User) + ",realm=" + quoted(l.Realm) + ",nonce=" + quoted(l.Nonce) + ",nc=" + nonceCount +
		",cnonce=" + quoted(l.Cnonce) + ",digest-uri=" + quoted(l.URI) + ",maxbuf=65536,response=" + l.Response() + ",qop=auth"), l, nil
}

// Check verifies a client's reply to the challenge with this realm and nonce. It returns the
// server's reply and the user. password returns the password of a user.
func Check(answer []byte, realm, nonce string, password func(user string) (string, bool)) (said []byte, user string, err error) {
	d, err := parse(answer)
	if err != nil {
		return nil, "", err
	}
	secret, known := password(d["username"])
	l := Login{User: d["username"], Realm: realm, Password: secret, Nonce: nonce, Cnonce: d["cnonce"], URI: d["digest-uri"]}
	switch {
	case !known:
		return nil, "", fmt.Errorf("no such user: %q", l.User)
	case d["nonce"] != nonce || d["realm"] != realm || d["nc"] != nonceCount || l.Cnonce == "":
		return nil, "", errors.New("the reply does not answer the challenge")
	case !strings.EqualFold(l.URI, URI) || d["qop"] != "" && d["qop"] != "auth":
		return nil, "", fmt.Errorf("unexpected digest-uri %q or qop %q", l.URI, d["qop"])
	case d["response"] != l.Response():
		return nil, "", errors.New("wrong password")
	}
	return []byte("rspauth=" + l.RspAuth()), l.User, nil
}

// Confirm verifies the server's reply.
func Confirm(said []byte, l Login) error {
	d, err := parse(said)
	if err == nil && d["rspauth"] != l.RspAuth() {
		err = errors.New("the server does not know the password")
	}
	return err
}

func offers(list, want string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(one) == want {
			return true
		}
	}
	return false
}

func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// parse reads name=value and name="value", separated by commas. Of several realms the first counts.
func parse(text []byte) (map[string]string, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	d := make(map[string]string)
	rest := strings.TrimLeft(string(text), ", \t")
	for rest != "" {
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return nil, errors.New("name without a value")
		}
		value, after, err := cutValue(after)
		if err != nil {
			return nil, err
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := d[name]; twice && name != "realm" {
			return nil, fmt.Errorf("duplicate directive %q", name)
		} else if !twice {
			d[name] = value
		}
		rest = strings.TrimLeft(after, ", \t")
	}
	return d, nil
}

// cutValue returns the value at the beginning of text, and what follows it.
func cutValue(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexByte(text, ',')
		if end < 0 {
			end = len(text)
		}
		return strings.TrimSpace(text[:end]), text[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), text[i+1:], nil
		case text[i] == '\\' && i+1 < len(text):
			i++
			fallthrough
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", errors.New("unterminated quote")
}
