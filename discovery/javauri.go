package discovery

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	uriScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	// uriServer matches a server with an IPv6 address.
	uriServer = regexp.MustCompile(`^(?:[^@\[\]]*@)?\[([^\[\]%]*)(%[A-Za-z0-9_.]+)?\](?::[0-9]*)?$`)
	uriEscape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
)

// javaURI returns why java.net.URI refuses a URI, and nil if it does not. testdata/javauri.txt has
// what Java 17 answers.
func javaURI(uri string) error {
	rest, fragment, more := strings.Cut(uri, "#")
	if strings.Contains(fragment, "#") {
		return errors.New("two fragments")
	}
	for _, r := range uri {
		if r == unicode.ReplacementChar || unicode.IsControl(r) || unicode.In(r, unicode.Z) || strings.ContainsRune("\"<>\\^`{|}", r) {
			return fmt.Errorf("invalid character %q", r)
		}
	}
	if at := strings.IndexAny(rest, ":/?"); at >= 0 && rest[at] == ':' {
		if !uriScheme.MatchString(rest[:at]) {
			return errors.New("no scheme")
		}
		if rest = rest[at+1:]; rest == "" {
			return errors.New("nothing after the scheme")
		}
		if rest[0] != '/' { // opaque
			return escaped(rest + fragment)
		}
	}
	path, query, asks := strings.Cut(rest, "?")
	if authority, found := strings.CutPrefix(path, "//"); found {
		authority, path, found = strings.Cut(authority, "/")
		if authority == "" && !found && !asks && !more {
			return errors.New("no authority")
		}
		if strings.ContainsAny(authority, "[]") {
			server := uriServer.FindStringSubmatch(authority)
			if server == nil {
				return errors.New("brackets without an IPv6 address")
			}
			if a, err := netip.ParseAddr(server[1]); err != nil || !a.Is6() {
				return errors.New("invalid IPv6 address")
			}
			authority = ""
		}
		path = authority + path
	}
	if strings.ContainsAny(path, "[]") {
		return errors.New("brackets in the path")
	}
	return escaped(path + "?" + query + "#" + fragment)
}

var (
	uriIPv4 = regexp.MustCompile(`^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$`)
	// uriName matches a name whose last label begins with a letter, unless it is the only one.
	uriName = regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?$|^[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?$`)
)

// javaHost reports whether java.net.URI finds a host in a URI with this one. Without a host, the
// clients of Spring cannot call it. testdata/javahost.txt has what Java 17 answers.
func javaHost(host string) bool {
	if strings.HasPrefix(host, "[") {
		return javaURI("http://"+host) == nil
	}
	if bytes := uriIPv4.FindStringSubmatch(host); bytes != nil {
		return !slices.ContainsFunc(bytes[1:], func(b string) bool { return len(b) == 3 && b > "255" })
	}
	return uriName.MatchString(host)
}

// escaped checks that each percent sign begins an escape.
func escaped(s string) error {
	if strings.Contains(uriEscape.ReplaceAllString(s, ""), "%") {
		return errors.New("'%' without two hexadecimal digits")
	}
	return nil
}
