package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/opt"
)

// target is one address to connect to.
type target struct {
	server  string // as the server list has it
	host    string // of server, for TLS
	address string // host:port for the dialer: an IP address, or host if the dialer resolves names
}

// resolve returns all addresses of a server: there may be several members behind one name, and only some of use. Those of
// the family that lookup prefers come first, each family in random order. Without lookup the dialer resolves names.
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
		err = errors.New("it has no address")
	}
	if err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	targets := make([]target, len(ips))
	for i, j := range rand.Perm(len(ips)) {
		targets[i] = target{server, host, net.JoinHostPort(ips[j], port)}
	}
	preferred := strings.Contains(ips[0], ":")
	slices.SortStableFunc(targets, func(a, b target) int {
		return rank(a, preferred) - rank(b, preferred)
	})
	return targets, nil
}

// rank is 0 for a target of the preferred family, which is IPv6 or not, and 1 for others.
func rank(t target, v6 bool) int {
	if strings.HasPrefix(t.address, "[") == v6 {
		return 0
	}
	return 1
}

// WithPort completes an address with ZooKeeper's default port.
func WithPort(server string) (string, error) {
	server = strings.TrimSpace(server)
	if strings.ContainsAny(server, ",/") {
		return "", fmt.Errorf("%w: server %q is a connect string: see ParseConnectString", opt.ErrBadArgument, server)
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		// Not host:port; it may be a host alone.
		host, port = strings.Trim(server, "[]"), strconv.Itoa(zk.DefaultPort)
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", fmt.Errorf("%w: server %q: %w", opt.ErrBadArgument, server, err)
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
		return "", fmt.Errorf("%w: server %q is not host:port", opt.ErrBadArgument, server)
	}
	return net.JoinHostPort(host, port), nil
}
