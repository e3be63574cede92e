package zktest

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// identity is somebody: "world" "anyone", "digest" "user:hash", "ip" "127.0.0.1".
type identity struct{ scheme, id string }

const (
	permRead = 1 << iota
	permWrite
	permCreate
	permDelete
	permAdmin
	permAll = 1<<iota - 1
)

var (
	super  = identity{scheme: "super"} // may do everything
	anyone = identity{"world", "anyone"}
)

var openACL = []proto.ACL{{Perms: permAll, Scheme: "world", ID: "anyone"}}

// allowed reports whether one of who has all of perms.
func allowed(list []proto.ACL, perms int32, who []identity) bool {
	if slices.Contains(who, super) {
		return true
	}
	for _, a := range list {
		if a.Perms&perms != perms {
			continue
		}
		i := identity{a.Scheme, a.ID}
		if i == anyone || slices.ContainsFunc(who, i.matches) {
			return true
		}
	}
	return false
}

// matches reports whether who is meant.
func (i identity) matches(who identity) bool {
	if i.scheme != who.scheme {
		return false
	}
	if i.scheme == "ip" && strings.Contains(i.id, "/") {
		_, subnet, err := net.ParseCIDR(i.id)
		return err == nil && subnet.Contains(net.ParseIP(who.id))
	}
	return i.id == who.id
}

// fixACL checks a list that a client sent, and replaces "auth" by who the client is.
func (c *config) fixACL(list []proto.ACL, who []identity) (fixed []proto.ACL, valid bool) {
	for _, a := range list {
		switch a.Scheme {
		case "world":
			if a.ID != anyone.id {
				return nil, false
			}
			fixed = addNew(fixed, a)
		case "auth":
			known := false
			for _, w := range who {
				if w.scheme == "digest" || w.scheme == "sasl" {
					known = true
					fixed = addNew(fixed, proto.ACL{Perms: a.Perms, Scheme: w.scheme, ID: w.id})
				}
			}
			if !known {
				return nil, false
			}
		case "digest":
			if len(javaSplit(a.ID, ":")) != 2 {
				return nil, false
			}
			fixed = addNew(fixed, a)
		case "sasl":
			if c.saslUsers == nil || a.ID == "" {
				return nil, false
			}
			fixed = addNew(fixed, a)
		case "ip":
			if !c.validIP(a.ID) {
				return nil, false
			}
			fixed = addNew(fixed, a)
		default:
			return nil, false
		}
	}
	return fixed, len(fixed) > 0
}

// addNew adds what is not in the list yet.
func addNew[E comparable](list []E, e E) []E {
	if slices.Contains(list, e) {
		return list
	}
	return append(list, e)
}

// javaSplit is what String.split does, on which the real server's checks rest: empty parts at
// the end do not count.
func javaSplit(s, sep string) []string {
	parts := strings.Split(s, sep)
	for len(parts) > 1 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// validIP checks an IPv4 address, in 3.9 also an IPv6 address, with or without the length of a prefix.
func (c *config) validIP(id string) bool {
	address, prefix, found := strings.Cut(id, "/")
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Is6() && (c.version < V3_9 || strings.ContainsAny(address, ".%")) {
		return false
	}
	if !found {
		return true
	}
	bits, err := strconv.Atoi(prefix)
	return err == nil && bits >= 0 && bits <= ip.BitLen()
}

// user is the name in an identity, without the hash of the password.
func (i identity) user() string {
	if i.scheme == "digest" {
		name, _, _ := strings.Cut(i.id, ":")
		return name
	}
	return i.id
}

// Digest returns the id that access lists use for the scheme "digest" and this user:password: user, a colon,
// and the SHA-1 of user:password in base64.
func Digest(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// digest is the identity of user:password.
func digest(cred string) identity { return identity{"digest", Digest(cred)} }

// WithSuperDigest makes a client that authenticates with this user and password a super user, for whom access
// lists do not matter. digest is what [Digest] returns, as in
// zookeeper.DigestAuthenticationProvider.superDigest. By default there is no super user.
func WithSuperDigest(digest string) Option {
	return func(c *config) error {
		user, hash, _ := strings.Cut(digest, ":")
		sum, err := base64.StdEncoding.DecodeString(hash)
		if user == "" || err != nil || len(sum) != sha1.Size {
			return fmt.Errorf("zktest: super digest %q is not user:base64(SHA-1)", digest)
		}
		c.superDigest = digest
		return nil
	}
}
