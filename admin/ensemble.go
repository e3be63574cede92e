package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/proto"
)

var (
	// ErrNewConfigNoQuorum means that too few servers of a new configuration are in step with the leader (-13).
	ErrNewConfigNoQuorum = conn.CodeError(proto.NewConfigNoQuorum)

	// ErrReconfigInProgress means that another reconfiguration is under way (-14).
	ErrReconfigInProgress = conn.CodeError(proto.ReconfigInProgress)
)

// Ensemble is the configuration of an ensemble that its servers keep. Groups and weights of servers are not in it.
type Ensemble struct {
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

// line is the member in a configuration: "server.1=host:2888:3888:participant;0.0.0.0:2181".
func (m Member) line() string {
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

// Change is a change of the members of an ensemble: step by step with Joining and Leaving, or all at once with
// Members, but not both. An ensemble with groups or weights can only be changed by other tools.
type Change struct {
	Joining []Member // to add, or, if the ID is there already, to replace
	Leaving []int64  // IDs to remove
	Members []Member // all that there shall be
}

// Config returns the configuration of the ensemble, whatever the client's namespace is. What a server answers may be old:
// [framework.Client.Sync] first, if that matters. It is Curator's getConfig.
//
// Errors are zk.ErrNoAuth, zk.ErrNoNode before ZooKeeper 3.5, and [framework.ErrUnimplemented] for a ClickHouse Keeper, which is
// not asked.
func Config(ctx context.Context, client *framework.Client) (Ensemble, error) {
	return config(ctx, client, func(l *engine.Connection) (engine.WithStat[[]byte], error) {
		return engine.Call(ctx, l, engine.AskGet(engine.ConfigPath, false))
	})
}

// WatchConfig is Config, and sets a watch that fires when the configuration changes. The errors are the same.
func WatchConfig(ctx context.Context, client *framework.Client) (ensemble Ensemble, watch *framework.Watch, err error) {
	root := engine.Of(client).In("") // the path of the event is on the real root
	ensemble, err = config(ctx, client, func(l *engine.Connection) (engine.WithStat[[]byte], error) {
		r, set, err := engine.Watched(ctx, root, l, engine.ConfigPath, engine.WatchData, engine.AskGet)
		watch = (*framework.Watch)(set)
		return r, err
	})
	if err != nil {
		return Ensemble{}, nil, err
	}
	return ensemble, watch, nil
}

// config reads the configuration of a server that has one of ZooKeeper's kind. A Keeper may have an old one, of the
// ZooKeeper whose data it has taken over.
func config(ctx context.Context, client *framework.Client, read func(*engine.Connection) (engine.WithStat[[]byte], error)) (Ensemble, error) {
	return do(ctx, client, "getConfig", engine.ConfigPath, func(l *engine.Connection) (Ensemble, error) {
		if l.ByKeeper() {
			return Ensemble{}, fmt.Errorf("a ClickHouse Keeper has no %s: %w", engine.ConfigPath, framework.ErrUnimplemented)
		}
		r, err := read(l)
		if err != nil {
			return Ensemble{}, err
		}
		return parse(string(r.Value))
	})
}

// Reconfig changes the members of the ensemble if its configuration has this version, and returns the new configuration; -1 is
// any. It needs the right to write /zookeeper/config, which by default only a super user has. It is Curator's reconfig.
//
// Errors are zk.ErrReconfigDisabled (-123, without reconfigEnabled), zk.ErrNoAuth, zk.ErrBadVersion, [ErrReconfigInProgress],
// [ErrNewConfigNoQuorum], zk.ErrBadArguments for members that the servers refuse, and [framework.ErrUnimplemented]: a server
// that runs alone, ZooKeeper before 3.5, and a ClickHouse Keeper, which is not asked. A change that has nothing in it, or a bad
// member, is [framework.ErrBadArgument]. If [retry.Unknown] is true, the ensemble may have been changed.
//
// [retry.Unknown]: https://pkg.go.dev/github.com/gocurator/curator/retry#Unknown
func Reconfig(ctx context.Context, client *framework.Client, change Change, version int64) (Ensemble, error) {
	const op = "reconfig"
	request, err := change.request(version)
	if err != nil {
		return Ensemble{}, opError(op, engine.ConfigPath, err)
	}
	r, err := do(ctx, client, op, engine.ConfigPath, func(l *engine.Connection) (engine.WithStat[[]byte], error) {
		return engine.Call(ctx, l, engine.AskReconfig(request))
	})
	if err != nil {
		return Ensemble{}, err
	}
	ensemble, err := parse(string(r.Value))
	if err != nil {
		return Ensemble{}, opError(op, engine.ConfigPath, engine.Doubtful(err))
	}
	return ensemble, nil
}

// request is the change on the wire.
func (c Change) request(version int64) (*proto.ReconfigRequest, error) {
	steps := len(c.Joining)+len(c.Leaving) > 0
	switch {
	case steps == (len(c.Members) > 0):
		return nil, fmt.Errorf("%w: either Joining and Leaving, or Members", framework.ErrBadArgument)
	case version < -1:
		return nil, fmt.Errorf("%w: version %d", framework.ErrBadArgument, version)
	}
	request := &proto.ReconfigRequest{Config: version}
	var err error
	if request.Joining, err = lines(c.Joining); err != nil {
		return nil, err
	}
	if request.Members, err = lines(c.Members); err != nil {
		return nil, err
	}
	var leaving []string
	for _, id := range c.Leaving {
		leaving = append(leaving, strconv.FormatInt(id, 10))
	}
	if leaving != nil {
		request.Leaving = []byte(strings.Join(leaving, ","))
	}
	return request, nil
}

// lines is nil for no members: the servers take an empty list for something else.
func lines(members []Member) ([]byte, error) {
	var list []string
	for _, m := range members {
		addresses := strings.Join(m.Addresses, "")
		if len(m.Addresses) == 0 || slices.Contains(m.Addresses, "") ||
			strings.ContainsAny(addresses, "|;,= \n") || strings.ContainsAny(m.Client, "|,= \n") {
			return nil, fmt.Errorf("%w: member %q", framework.ErrBadArgument, m.line())
		}
		list = append(list, m.line())
	}
	if list == nil {
		return nil, nil
	}
	return []byte(strings.Join(list, ",")), nil
}

// parse reads a configuration.
func parse(text string) (Ensemble, error) {
	parsed, err := proto.ParseConfig(text)
	ensemble := Ensemble{Version: parsed.Version}
	for _, m := range parsed.Members {
		ensemble.Members = append(ensemble.Members, Member(m))
	}
	return ensemble, err
}
