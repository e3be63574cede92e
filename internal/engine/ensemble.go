package engine

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/wait"
)

// tracker follows the configuration of the ensemble.
type tracker struct {
	core  *core
	given func(context.Context) ([]string, error)

	mu      sync.Mutex // guards what follows
	base    []string   // what given said last
	tracked []string   // what the configuration says; nil if it says nothing of use
	turn    bool       // the next round is over tracked
}

// servers is the client's server list.
func (t *tracker) servers(ctx context.Context) ([]string, error) {
	t.mu.Lock()
	tracked := t.tracked
	t.turn = !t.turn
	useTracked := t.turn && len(tracked) > 0
	t.mu.Unlock()
	if useTracked {
		return tracked, nil
	}
	base, err := t.given(ctx)
	if err != nil && len(tracked) > 0 {
		return tracked, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.base = base
	return base, err
}

// Paths of the configuration on the server, whatever the client's namespace, and the pause after it
// could not be read.
const (
	ConfigPath       = "/zookeeper/config"
	keeperConfigPath = "/keeper/config"
	trackPause       = time.Minute
)

// run ends with the client.
func (t *tracker) run() {
	c := Client{core: t.core}
	for c.ctx.Err() == nil {
		var path string
		err := Follow(c.ctx, c, func(ctx context.Context, l Link) (<-chan struct{}, error) {
			path = ConfigPath
			// A Keeper's data may contain the configuration of the ZooKeeper that it replaced.
			if l.ByKeeper() {
				path = keeperConfigPath
			}
			r, watch, err := Watched(ctx, c, l.Connection, path, wire.WatchData, wire.AskGet)
			if err == nil {
				t.adopt(string(r.Value), path == ConfigPath && c.cfg.TLS == nil)
			}
			return watch.Done(), err
		})
		if c.ctx.Err() == nil {
			c.cfg.Log.Warn("the ensemble's configuration cannot be read", "path", path, "reason", err)
			_ = wait.Sleep(c.ctx, trackPause)
		}
	}
}

// adopt takes the servers of a configuration over. ports says whether it names their ports. One
// that cannot be parsed changes nothing.
func (t *tracker) adopt(text string, ports bool) {
	config, err := proto.ParseConfig(text)
	if err != nil {
		t.core.cfg.Log.Warn("the ensemble's configuration cannot be parsed", "reason", err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	port := ""
	if !ports {
		if port = commonPort(t.base); port == "" {
			return
		}
	}
	t.turn = false // this connection was useful: the next round begins with tracked again
	tracked := clientAddresses(config.Members, port)
	if slices.Equal(tracked, t.tracked) {
		return
	}
	t.tracked = tracked
	t.core.cfg.Log.Info("ensemble configuration", "servers", tracked)
}

// commonPort is the port that all servers have, or empty.
func commonPort(servers []string) (port string) {
	for _, s := range servers {
		address, err := WithPort(s)
		if err != nil {
			return ""
		}
		_, p, _ := net.SplitHostPort(address)
		if port != "" && p != port {
			return ""
		}
		port = p
	}
	return port
}

// clientAddresses are the addresses of members for clients. port overrules the ports; without it,
// members that have none are left out.
func clientAddresses(members []proto.Member, port string) (servers []string) {
	for _, m := range members {
		for _, address := range m.Addresses {
			server := clientAddress(quorumHost(address), m.Client, port)
			if server != "" && !slices.Contains(servers, server) {
				servers = append(servers, server)
			}
		}
	}
	slices.Sort(servers)
	return servers
}

// quorumHost is the host of "host:2888:3888" or "[v6]:2888:3888".
func quorumHost(address string) string {
	if rest, found := strings.CutPrefix(address, "["); found {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(address, ":")
	return host
}

// clientAddress returns an address from a server's host and the configuration's part for clients:
// "2181", "host:2181" or nothing, perhaps followed by a semicolon and the same for TLS. It is empty
// if no host is known: an address of "all interfaces" would be the client's own machine.
func clientAddress(host, client, port string) string {
	if port == "" {
		client, _, _ = strings.Cut(client, ";")
		if h, p, err := net.SplitHostPort(client); err == nil {
			port = p
			if h != "" && !unspecified(h) {
				host = h
			}
		} else {
			port = client
		}
	}
	if host == "" || port == "" || unspecified(host) {
		return ""
	}
	address, err := WithPort(net.JoinHostPort(host, port))
	if err != nil {
		return ""
	}
	return address
}

// unspecified reports whether host is the address of all interfaces of a machine, and so of none in
// particular.
func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsUnspecified()
}
