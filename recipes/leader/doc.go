// Package leader elects one leader at a time among all processes that use the same path of a ZooKeeper ensemble. It is Curator's
// LeaderLatch and LeaderSelector.
//
//	e, err := leader.New(client, "/scheduler/leader", leader.WithID("host-7"))
//	if err != nil { ... }
//	err = e.Run(ctx, func(ctx context.Context, term *leader.Term) error {
//		return schedule(ctx) // ends when ctx does: the leadership is over then
//	})
//
// # On the wire
//
// Every candidate creates an ephemeral sequential node below the election's path, with its id as data:
//
//	<path>/_c_<uuid>-latch-<sequence>   LeaderLatch
//	<path>/_c_<uuid>-lock-<sequence>    LeaderSelector, with AsSelector
//
// The candidate with the lowest sequence number leads. The others wait in the order of their nodes, as package lock does. So Java
// and Go candidates take part in one election. The two kinds of nodes are two elections, also below one path.
//
// # What it promises
//
//   - One leader at a time whose term's context is not done.
//   - A term ends before its node is deleted, and so before the next term begins.
//   - A candidate whose session ends while it waits joins again. It stops only with its
//     context, with [framework.Client.Close], or with an error that a retry does not help.
//   - After an error we remove our node, also if the server carries out our create request only after we have
//     given up.
//   - A function that leads keeps its node until it has returned: see [Election.Run].
//
// # What it cannot promise
//
// A process that was stopped for a while does not know how late it is. What must never be done by two leaders needs a check where
// it happens: [Term.Guard] in ZooKeeper, [Term.FencingToken] anywhere else.
//
// Nor is a leader warned if somebody else deletes its node, or ends its session by force: its context ends when the servers report that.
//
// When a session ends, the servers delete its node, also while a function still leads. The function's context has ended by then.
package leader
