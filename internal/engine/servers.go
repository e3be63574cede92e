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
