package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/opt"
)

// target is one address to connect to.
type target struct {
	server  string // the entry of the server list
	host    string // the host of server, for TLS
	address string // host:port for the dialer: an IP address, or host if the dialer resolves names
}

// resolve returns all addresses of a server: a name may stand for several members, and only some
// may be reachable. The family that lookup prefers is first, each family in random order. Without
// lookup the dialer resolves names.
func resolve(ctx context.Context, lookup func(context.Context, string) ([]string, error), server string) ([]target, error) {
	address, err := WithPort(server)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(address)
	if _, err := netip.ParseAddr(host); err == nil || lookup == nil {
		return []target{{server, host, address}}, nil
	}
	ips, err := lookup(ctx, host)
	if err == nil && len(ips) == 0 {
		err = errors.New("the resolver returned no address")
	}
	if err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	var targets, others []target
	for _, i := range rand.Perm(len(ips)) {
		t := target{server, host, net.JoinHostPort(ips[i], port)}
		if strings.Contains(ips[i], ":") == strings.Contains(ips[0], ":") {
			targets = append(targets, t)
		} else {
			others = append(others, t)
		}
	}
	return append(targets, others...), nil
}

// WithPort returns the address of a server with ZooKeeper's default port if server has none. It
// returns [opt.ErrBadArgument] if server is invalid.
func WithPort(server string) (string, error) {
	server = strings.TrimSpace(server)
	if err := CheckScheme(server); err != nil {
		return "", err
	}
	if strings.ContainsAny(server, ",/") {
		return "", fmt.Errorf("%w: server %q is a connect string: see ParseConnectString", opt.ErrBadArgument, server)
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		// Not host:port; it may be a host alone.
		host, port = server, strconv.Itoa(zk.DefaultPort)
		if inner, found := strings.CutPrefix(server, "["); found {
			host, found = strings.CutSuffix(inner, "]")
			if !found {
				return "", fmt.Errorf("%w: server %q: missing ]", opt.ErrBadArgument, server)
			}
		}
	}
	bracketed := strings.HasPrefix(server, "[")
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil && !isHostName(host), bracketed && (err != nil || !ip.Is6()):
		return "", fmt.Errorf("%w: server %q: %q is neither a host name nor an IP address", opt.ErrBadArgument, server, host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%w: server %q: %q is not a port", opt.ErrBadArgument, server, port)
	}
	return net.JoinHostPort(host, port), nil
}

// isHostName reports whether a resolver may know a host of this name. It refuses no name that is in
// use; a list with a space or a semicolon between its servers is not one name.
func isHostName(host string) bool {
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
}

// CheckScheme returns an error if a server or a connect string is a URL or contains credentials.
// The error does not contain the password.
func CheckScheme(servers string) error {
	if scheme, _, found := strings.Cut(servers, "://"); found {
		return fmt.Errorf("%w: servers are host:port without the scheme %q", opt.ErrBadArgument, scheme)
	}
	hosts, _, _ := strings.Cut(servers, "/")
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		return fmt.Errorf("%w: servers are host:port without credentials: ...%s", opt.ErrBadArgument, hosts[i:])
	}
	return nil
}
