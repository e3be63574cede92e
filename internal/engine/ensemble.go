package engine

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

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

// Paths of the configuration, on the real root whatever the client's namespace is, and how long to wait
// when it cannot be read.
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
			if l.ByKeeper() { // it may have that of the ZooKeeper whose data it has taken over
				path = keeperConfigPath
			}
			r, watch, err := Watched(ctx, c, l.Connection, path, WatchData, AskGet)
			if err == nil {
				err = t.adopt(string(r.Value), path == ConfigPath && c.cfg.TLS == nil)
			}
			return watch.Done(), err
		})
		if c.ctx.Err() == nil {
			c.cfg.Log.Warn("the ensemble's configuration cannot be read", "path", path, "reason", err)
			_ = wait.Sleep(c.ctx, trackPause)
		}
	}
}

// adopt takes the servers of a configuration over. ports says whether it names their ports.
func (t *tracker) adopt(text string, ports bool) error {
	config, err := proto.ParseConfig(text)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	port := ""
	if !ports {
		if port = commonPort(t.base); port == "" {
			return nil
		}
	}
	t.turn = false // what is connected now was of use: the next connection begins with tracked again
	tracked := clientAddresses(config.Members, port)
	if slices.Equal(tracked, t.tracked) {
		return nil
	}
	t.tracked = tracked
	t.core.cfg.Log.Info("ensemble configuration", "servers", tracked)
	return nil
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

// clientAddresses are the addresses of members for clients. port overrules the ports; without it, members that have none are left out.
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

// clientAddress makes an address of a server's host and of what the configuration says about clients: "2181",
// "host:2181" or nothing, and perhaps behind a semicolon the same for TLS.
func clientAddress(host, client, port string) string {
	if port == "" {
		client, _, _ = strings.Cut(client, ";")
		if h, p, err := net.SplitHostPort(client); err == nil {
			port = p
			if ip := net.ParseIP(h); h != "" && (ip == nil || !ip.IsUnspecified()) {
				host = h
			}
		} else {
			port = client
		}
	}
	if host == "" || port == "" {
		return ""
	}
	address, err := WithPort(net.JoinHostPort(host, port))
	if err != nil {
		return ""
	}
	return address
}
