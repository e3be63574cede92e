package tree

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// Identity is an identity of a client, such as "world" "anyone", "digest" "user:hash" or "ip"
// "127.0.0.1".
type Identity struct{ Scheme, ID string }

// The permissions.
const (
	PermRead = 1 << iota
	permWrite
	permCreate
	permDelete
	permAdmin
	permAll = 1<<iota - 1
)

// Identities with a special meaning.
var (
	Super  = Identity{Scheme: "super"} // has all permissions
	anyone = Identity{"world", "anyone"}
)

// OpenACL grants all permissions to every client.
var OpenACL = []proto.ACL{{Perms: permAll, Scheme: "world", ID: "anyone"}}

// Allowed reports whether an access list grants all of perms to one of the identities.
func Allowed(list []proto.ACL, perms int32, who []Identity) bool {
	if slices.Contains(who, Super) {
		return true
	}
	for _, a := range list {
		if a.Perms&perms != perms {
			continue
		}
		i := Identity{a.Scheme, a.ID}
		if i == anyone || slices.ContainsFunc(who, i.matches) {
			return true
		}
	}
	return false
}

// matches reports whether an entry with this identity applies to who.
func (i Identity) matches(who Identity) bool {
	if i.Scheme != who.Scheme {
		return false
	}
	if i.Scheme == "ip" {
		subnet, valid := parseSubnet(i.ID)
		client, err := netip.ParseAddr(who.ID)
		return valid && err == nil && subnet.Contains(client.Unmap().WithZone(""))
	}
	return i.ID == who.ID
}

// fixACL checks a list that a client sent, and replaces "auth" by the identities of the client.
func (c *Rules) fixACL(list []proto.ACL, who []Identity) (fixed []proto.ACL, valid bool) {
	for _, a := range list {
		if a.Scheme != "auth" {
			if !c.validEntry(a) {
				return nil, false
			}
			fixed = AddNew(fixed, a)
			continue
		}
		known := false
		for _, w := range who {
			if w.Scheme == "digest" || w.Scheme == "sasl" {
				known = true
				fixed = AddNew(fixed, proto.ACL{Perms: a.Perms, Scheme: w.Scheme, ID: w.ID})
			}
		}
		if !known {
			return nil, false
		}
	}
	return fixed, len(fixed) > 0
}

// validEntry checks an entry of an access list by its scheme.
func (c *Rules) validEntry(a proto.ACL) bool {
	switch a.Scheme {
	case "world":
		return a.ID == anyone.ID
	case "digest":
		return len(javaSplit(a.ID, ":")) == 2
	case "sasl":
		return c.SASL && a.ID != ""
	case "ip":
		return c.validIP(a.ID)
	}
	return false
}

// AddNew appends an element, unless the list contains it.
func AddNew[E comparable](list []E, e E) []E {
	if slices.Contains(list, e) {
		return list
	}
	return append(list, e)
}

// javaSplit splits as Java's String.split, on which the real server's checks rest: empty parts at
// the end do not count.
func javaSplit(s, sep string) []string {
	parts := strings.Split(s, sep)
	for len(parts) > 1 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// validIP checks an IPv4 address, in 3.9 also an IPv6 address, with or without the length of a
// prefix.
func (c *Rules) validIP(id string) bool {
	subnet, valid := parseSubnet(id)
	return valid && (subnet.Addr().Is4() || c.Version >= V39)
}

// parseSubnet parses the id of an access list with the scheme "ip". Without a prefix length, the
// subnet is one address.
func parseSubnet(id string) (netip.Prefix, bool) {
	address, length, found := strings.Cut(id, "/")
	ip, valid := parseIP(address)
	if !valid {
		return netip.Prefix{}, false
	}
	bits := int64(ip.BitLen())
	if found {
		bits, valid = javaNumber(length, 10, bits)
	}
	return netip.PrefixFrom(ip, int(bits)), valid
}

// parseIP parses an address as a real server does, which reads each part as a number. It accepts
// leading zeros and a sign, but no IPv4 address at the end of an IPv6 address, and no zone.
func parseIP(address string) (netip.Addr, bool) {
	if !strings.Contains(address, ":") {
		parts := strings.Split(address, ".")
		var ip [4]byte
		if len(parts) != len(ip) {
			return netip.Addr{}, false
		}
		for i, part := range parts {
			n, valid := javaNumber(part, 10, 255)
			if !valid {
				return netip.Addr{}, false
			}
			ip[i] = byte(n)
		}
		return netip.AddrFrom4(ip), true
	}
	head, tail, short := strings.Cut(address, "::")
	left, valid := parseGroups(head)
	right, alsoValid := parseGroups(tail)
	missing := 8 - len(left) - len(right)
	if !valid || !alsoValid || missing < 0 || short != (missing > 0) {
		return netip.Addr{}, false
	}
	var ip [16]byte
	for i, n := range append(append(left, make([]uint16, missing)...), right...) {
		binary.BigEndian.PutUint16(ip[2*i:], n)
	}
	return netip.AddrFrom16(ip), true
}

// parseGroups parses a part of an IPv6 address without "::".
func parseGroups(text string) ([]uint16, bool) {
	if text == "" {
		return nil, true
	}
	var groups []uint16
	for part := range strings.SplitSeq(text, ":") {
		n, valid := javaNumber(part, 16, math.MaxUint16)
		if !valid || len(part) > 4 {
			return nil, false
		}
		groups = append(groups, uint16(n))
	}
	return groups, true
}

// javaNumber parses a number from 0 to limit as Java's Integer.parseInt does.
func javaNumber(text string, base int, limit int64) (int64, bool) {
	n, err := strconv.ParseInt(text, base, 32)
	return n, err == nil && n >= 0 && n <= limit
}

// User returns the identity's name, without the hash of the password.
func (i Identity) User() string {
	if i.Scheme == "digest" {
		name, _, _ := strings.Cut(i.ID, ":")
		return name
	}
	return i.ID
}

// Digest returns the id for user:password in access lists of scheme "digest": user, a colon, and
// the SHA-1 of user:password in base64.
func Digest(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// Credentials returns the digest identity for user:password as received from a client.
func Credentials(cred string) Identity {
	text := javaString(cred)
	user, hash, _ := strings.Cut(Digest(text), ":")
	return Identity{"digest", javaBytes(user) + ":" + hash}
}
