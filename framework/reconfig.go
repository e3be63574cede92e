package framework

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
)

// EnsembleConfig is the configuration of an ensemble that its servers keep. Groups and weights of servers are not in it.
type EnsembleConfig struct {
	Version int64
	Members []Member // empty if the server runs alone and has no dynamic configuration
}

// Member is a server of an ensemble.
type Member struct {
	ID        int64
	Addresses []string // for the other servers, as "host:2888:3888"; since ZooKeeper 3.6 there may be several
	Observer  bool     // it does not vote

	// Client is where clients connect: "2181", "host:2181", or "" if the configuration does not say. From ZooKeeper 3.10 on ";2281" or
	// ";host:2281" may follow, for TLS.
	Client string
}

// String is the member as a line of the configuration: "server.1=host:2888:3888:participant;0.0.0.0:2181".
func (m Member) String() string {
	role := "participant"
	if m.Observer {
		role = "observer"
	}
	line := fmt.Sprintf("server.%d=%s:%s", m.ID, strings.Join(m.Addresses, "|"), role)
	if m.Client != "" {
		line += ";" + m.Client
	}
	return line
}

// Reconfiguration is a change of the members of an ensemble: step by step with Joining and Leaving, or all at once with
// Members, but not both. An ensemble with groups or weights can only be changed by other tools.
type Reconfiguration struct {
	Joining []Member // to add, or, if the ID is there already, to replace
	Leaving []int64  // IDs to remove
	Members []Member // all that there shall be
}

// GetConfig returns the configuration of the ensemble, whatever the client's namespace is. What a server answers may be old:
// [Client.Sync] first, if that matters. It is Curator's getConfig.
//
// Errors are zk.ErrNoAuth, zk.ErrNoNode before ZooKeeper 3.5, and [ErrUnimplemented] for a ClickHouse Keeper, which is not
// asked.
func (c *Client) GetConfig(ctx context.Context) (EnsembleConfig, error) {
	return c.getConfig(ctx, func(l *engine.Connection) (engine.WithStat[[]byte], error) {
		return engine.Call(ctx, l, engine.AskGet(engine.ConfigPath, false))
	})
}

// GetConfigW is GetConfig, and sets a watch that fires when the configuration changes. The errors are the same.
func (c *Client) GetConfigW(ctx context.Context) (config EnsembleConfig, watch *Watch, err error) {
	root := c.engine.In("") // the path of the event is on the real root
	config, err = c.getConfig(ctx, func(l *engine.Connection) (engine.WithStat[[]byte], error) {
		r, set, err := engine.Watched(ctx, root, l, engine.ConfigPath, engine.WatchData, engine.AskGet)
		watch = (*Watch)(set)
		return r, err
	})
	if err != nil {
		return EnsembleConfig{}, nil, err
	}
	return config, watch, nil
}

// getConfig reads the configuration of a server that has one of ZooKeeper's kind. A Keeper may have an old one, of the
// ZooKeeper whose data it has taken over.
func (c *Client) getConfig(ctx context.Context, read func(*engine.Connection) (engine.WithStat[[]byte], error)) (EnsembleConfig, error) {
	return do(ctx, c, "getConfig", engine.ConfigPath, func(l *engine.Connection, _ string) (EnsembleConfig, error) {
		if l.ByKeeper() {
			return EnsembleConfig{}, fmt.Errorf("a ClickHouse Keeper has no %s: %w", engine.ConfigPath, ErrUnimplemented)
		}
		r, err := read(l)
		if err != nil {
			return EnsembleConfig{}, err
		}
		return parseConfig(string(r.Value))
	})
}

// Reconfig changes the members of the ensemble if its configuration has this version, and returns the new configuration; -1 is
// any. It needs the right to write /zookeeper/config, which by default only a super user has. It is Curator's reconfig.
//
// Errors are zk.ErrReconfigDisabled (-123, without reconfigEnabled), zk.ErrNoAuth, zk.ErrBadVersion, [ErrReconfigInProgress]
// (-14), [ErrNewConfigNoQuorum] (-13), zk.ErrBadArguments for members that the servers refuse, and [ErrUnimplemented]: a server
// that runs alone, ZooKeeper before 3.5, and a ClickHouse Keeper, which is not asked. A change that has nothing in it, or a bad
// member, is [ErrBadArgument]. If [retry.Unknown] is true, the ensemble may have been changed.
func (c *Client) Reconfig(ctx context.Context, change Reconfiguration, version int64) (EnsembleConfig, error) {
	const op = "reconfig"
	request, err := change.request(version)
	if err != nil {
		return EnsembleConfig{}, opError(op, engine.ConfigPath, err)
	}
	r, err := c.engine.Reconfig(ctx, request)
	if err != nil {
		return EnsembleConfig{}, opError(op, engine.ConfigPath, err)
	}
	config, err := parseConfig(string(r.Value))
	if err != nil {
		err = opError(op, engine.ConfigPath, engine.Doubtful(err))
	}
	return config, err
}

// request is the change on the wire.
func (r Reconfiguration) request(version int64) (*proto.ReconfigRequest, error) {
	steps := len(r.Joining)+len(r.Leaving) > 0
	switch {
	case steps == (len(r.Members) > 0):
		return nil, fmt.Errorf("%w: either Joining and Leaving, or Members", ErrBadArgument)
	case version < -1:
		return nil, fmt.Errorf("%w: version %d", ErrBadArgument, version)
	}
	request := &proto.ReconfigRequest{Config: version}
	var err error
	if request.Joining, err = memberList(r.Joining); err != nil {
		return nil, err
	}
	if request.Members, err = memberList(r.Members); err != nil {
		return nil, err
	}
	var leaving []string
	for _, id := range r.Leaving {
		leaving = append(leaving, strconv.FormatInt(id, 10))
	}
	if leaving != nil {
		request.Leaving = []byte(strings.Join(leaving, ","))
	}
	return request, nil
}

// memberList is nil for no members: the servers take an empty list for something else.
func memberList(members []Member) ([]byte, error) {
	var lines []string
	for _, m := range members {
		if len(m.Addresses) == 0 || slices.Contains(m.Addresses, "") || strings.ContainsAny(strings.Join(m.Addresses, ""), "|;,= \n") || strings.ContainsAny(m.Client, "|,= \n") {
			return nil, fmt.Errorf("%w: member %q", ErrBadArgument, m)
		}
		lines = append(lines, m.String())
	}
	if lines == nil {
		return nil, nil
	}
	return []byte(strings.Join(lines, ",")), nil
}

// parseConfig reads a configuration.
func parseConfig(text string) (EnsembleConfig, error) {
	parsed, err := proto.ParseConfig(text)
	config := EnsembleConfig{Version: parsed.Version}
	for _, m := range parsed.Members {
		config.Members = append(config.Members, Member(m))
	}
	return config, err
}
