package framework

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
)

// ServerList returns the servers to connect to, as host:port or host (port 2181).
// It is called again before each round over all servers, so it
// may follow DNS or a registry. It must return when ctx is done. It is Curator's EnsembleProvider.
type ServerList func(ctx context.Context) ([]string, error)

// ResolveFunc returns the IP addresses of a host name, like [net.Resolver.LookupHost]. It must return when ctx is done.
type ResolveFunc func(ctx context.Context, host string) ([]string, error)

// target is one address to connect to.
type target struct {
	server  string // as the server list has it
	host    string // of server, for TLS
	address string // host:port for the dialer: an IP address, or host if the dialer resolves names
}

// resolve returns all addresses of a server: there may be several members behind one name, and only some of use. Those of
// the family that lookup prefers come first, each family in random order. Without lookup the dialer resolves names.
func resolve(ctx context.Context, lookup ResolveFunc, server string) ([]target, error) {
	address, err := withPort(server)
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

// ParseConnectString parses a connect string of Java's clients:
// "zk1:2181,zk2:2181/app/a" are two servers and the chroot "app/a". Give the latter to
// [WithNamespace], which has the same effect: all paths are below it. It is empty if there is none. Unlike
// Java's chroot it need not exist when nodes are created with their parents.
//
//	servers, chroot, err := framework.ParseConnectString(os.Getenv("ZOOKEEPER"))
//	if err != nil { ... }
//	client, err := framework.New(servers, framework.WithNamespace(chroot))
//
// Errors are [ErrBadArgument] and [ErrBadPath].
func ParseConnectString(s string) (servers []string, chroot string, err error) {
	hosts, chroot, _ := strings.Cut(strings.TrimSpace(s), "/")
	chroot = strings.TrimSuffix(chroot, "/")
	if err := validateNamespace(chroot); err != nil {
		return nil, "", fmt.Errorf("connect string %q: %w", s, err)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if strings.TrimSpace(host) == "" {
			continue // as Java does
		}
		server, err := withPort(host)
		if err != nil {
			return nil, "", fmt.Errorf("connect string %q: %w", s, err)
		}
		servers = append(servers, server)
	}
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("%w: connect string %q names no server", ErrBadArgument, s)
	}
	return servers, chroot, nil
}

// fixedServers is the server list of New's first argument.
func fixedServers(servers []string) (ServerList, error) {
	list := make([]string, len(servers))
	for i, s := range servers {
		address, err := withPort(s)
		if err != nil {
			return nil, err
		}
		list[i] = address
	}
	return func(context.Context) ([]string, error) { return list, nil }, nil
}

// withPort completes an address with ZooKeeper's default port.
func withPort(server string) (string, error) {
	server = strings.TrimSpace(server)
	if strings.ContainsAny(server, ",/") {
		return "", fmt.Errorf("%w: server %q is a connect string: see ParseConnectString", ErrBadArgument, server)
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		// Not host:port; it may be a host alone.
		host, port = strings.Trim(server, "[]"), strconv.Itoa(zk.DefaultPort)
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", fmt.Errorf("%w: server %q: %w", ErrBadArgument, server, err)
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
		return "", fmt.Errorf("%w: server %q is not host:port", ErrBadArgument, server)
	}
	return net.JoinHostPort(host, port), nil
}
