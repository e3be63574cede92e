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
	"github.com/gocurator/curator/internal/engine/wire"
	"github.com/gocurator/curator/internal/proto"
)

var (
	// ErrNewConfigNoQuorum means that too few servers of a new configuration are in sync with the
	// leader (-13).
	ErrNewConfigNoQuorum = conn.CodeError(proto.NewConfigNoQuorum)

	// ErrReconfigInProgress means that another reconfiguration is in progress (-14).
	ErrReconfigInProgress = conn.CodeError(proto.ReconfigInProgress)
)

// Ensemble is the configuration stored on the servers of an ensemble, without groups and weights.
type Ensemble struct {
	Version int64
	Members []Member // empty if the server runs standalone without a dynamic configuration
}

// Member is a server of an ensemble.
type Member struct {
	ID int64
	// Addresses are the addresses for the other servers, such as "host:2888:3888". Since ZooKeeper
	// 3.6 a server may have several addresses.
	Addresses []string
	Observer  bool // the server does not vote

	// Client is the address for clients: "2181", "host:2181", or "" if the configuration does not
	// contain it. Since ZooKeeper 3.10 the TLS address may follow it: ";2281" or ";host:2281".
	Client string
}

// line returns the member as in a configuration:
// "server.1=host:2888:3888:participant;0.0.0.0:2181".
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

// Change is a change of an ensemble's members. Set either Joining and Leaving for an incremental
// change, or Members for a complete new list. It cannot change an ensemble with groups or weights.
type Change struct {
	Joining []Member // members to add, or to replace if the ID exists
	Leaving []int64  // IDs to remove
	Members []Member // the complete new list
}

// Config returns the configuration of the ensemble. It ignores the client's namespace. It is
// Curator's getConfig.
//
// The server may lag behind the leader. To read the latest configuration, call
// [framework.Client.Sync] first.
//
// Errors are
//   - zk.ErrNoAuth if the client is not permitted to read /zookeeper/config;
//   - zk.ErrNoNode if the servers are older than ZooKeeper 3.5;
//   - [framework.ErrUnimplemented] if they are ClickHouse Keepers;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
func Config(ctx context.Context, client *framework.Client) (Ensemble, error) {
	return config(ctx, client, func(l *engine.Connection) (wire.WithStat[[]byte], error) {
		return wire.Call(ctx, l.Conn, wire.AskGet(engine.ConfigPath, false))
	})
}

// WatchConfig returns the configuration of the ensemble, and sets a watch that fires when the
// configuration changes. It ignores the client's namespace.
//
// Errors are
//   - zk.ErrNoAuth if the client is not permitted to read /zookeeper/config;
//   - zk.ErrNoNode if the servers are older than ZooKeeper 3.5;
//   - [framework.ErrUnimplemented] if they are ClickHouse Keepers;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
func WatchConfig(ctx context.Context, client *framework.Client) (ensemble Ensemble, watch *framework.Watch, err error) {
	root := engine.Of(client).Below("") // events have the path below the servers' root
	ensemble, err = config(ctx, client, func(l *engine.Connection) (wire.WithStat[[]byte], error) {
		r, set, err := engine.Watched(ctx, root, l, engine.ConfigPath, wire.WatchData, wire.AskGet)
		watch = (*framework.Watch)(set)
		return r, err
	})
	if err != nil {
		return Ensemble{}, nil, err
	}
	return ensemble, watch, nil
}

// config reads the configuration of a ZooKeeper server. It does not read a Keeper's node, which may
// be the outdated configuration of the ZooKeeper from which the Keeper's data were imported.
func config(ctx context.Context, client *framework.Client, read func(*engine.Connection) (wire.WithStat[[]byte], error)) (Ensemble, error) {
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

// Reconfig changes the members of the ensemble if its configuration has the given version, and
// returns the new configuration. Version -1 matches every version. It is Curator's reconfig.
//
// Errors are
//   - zk.ErrReconfigDisabled (-123) if the servers do not set reconfigEnabled;
//   - zk.ErrNoAuth if the client is not permitted to write /zookeeper/config, which by default only
//     a super user may do;
//   - zk.ErrBadVersion if the configuration has another version;
//   - [ErrReconfigInProgress] if another change is in progress;
//   - [ErrNewConfigNoQuorum] if too few of the new servers are in sync;
//   - zk.ErrBadArguments if the servers refuse a member;
//   - [framework.ErrBadArgument] if the change is empty or a member is invalid;
//   - [framework.ErrUnimplemented] if the server runs standalone, is older than ZooKeeper 3.5, or
//     is a ClickHouse Keeper;
//   - [framework.ErrClosed] if the client is closed;
//   - the error of ctx if ctx is done, wrapped with the last failure, such as zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry succeeded;
//   - retry.ErrExhausted, which wraps that error, if the request was retried;
//   - [framework.ErrSessionLost] if the client is a view of a lost session: see
//     [framework.Client.In];
//   - zk.ErrAuthFailed if the server refuses the client's credentials;
//   - another of the server's errors, such as [framework.ErrAuthRequired].
//
// If [retry.Unknown] reports true for the error, the ensemble may have been changed.
//
// [retry.Unknown]: https://pkg.go.dev/github.com/gocurator/curator/retry#Unknown
func Reconfig(ctx context.Context, client *framework.Client, change Change, version int64) (Ensemble, error) {
	const op = "reconfig"
	request, err := change.request(version)
	if err != nil {
		return Ensemble{}, opError(op, engine.ConfigPath, err)
	}
	r, err := do(ctx, client, op, engine.ConfigPath, func(l *engine.Connection) (wire.WithStat[[]byte], error) {
		return wire.Call(ctx, l.Conn, wire.AskReconfig(request))
	})
	if err != nil {
		return Ensemble{}, err
	}
	ensemble, err := parse(string(r.Value))
	if err != nil {
		return Ensemble{}, opError(op, engine.ConfigPath, wire.Doubtful(err))
	}
	return ensemble, nil
}

// request returns the request for the change.
func (c Change) request(version int64) (*proto.ReconfigRequest, error) {
	steps := len(c.Joining)+len(c.Leaving) > 0
	switch {
	case steps == (len(c.Members) > 0):
		return nil, fmt.Errorf("%w: set either Joining and Leaving, or Members", framework.ErrBadArgument)
	case version < -1:
		return nil, fmt.Errorf("%w: version %d, must be at least -1", framework.ErrBadArgument, version)
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

// lines returns the members as text, and nil for none: servers give an empty list another meaning.
func lines(members []Member) ([]byte, error) {
	var list []string
	for _, m := range members {
		addresses := strings.Join(m.Addresses, "")
		if len(m.Addresses) == 0 || slices.Contains(m.Addresses, "") ||
			strings.ContainsAny(addresses, "|;,= \n") || strings.ContainsAny(m.Client, "|,= \n") {
			return nil, fmt.Errorf("%w: invalid member %q", framework.ErrBadArgument, m.line())
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
