// Package leader elects one leader at a time among all processes that use the same path of a
// ZooKeeper ensemble. It is Curator's LeaderLatch and LeaderSelector.
//
//	e, err := leader.New(client, "/scheduler/leader", leader.WithID("host-7"))
//	if err != nil { ... }
//	err = e.Run(ctx, func(ctx context.Context, term *leader.Term) error {
//		return schedule(ctx) // returns when ctx is done: the leadership is over
//	})
//
// # On the wire
//
// Every candidate creates an ephemeral sequential node below the election's path, with its id as
// data:
//
//	<path>/_c_<uuid>-latch-<sequence>   LeaderLatch
//	<path>/_c_<uuid>-lock-<sequence>    LeaderSelector, with WithSelector
//
// The candidate with the lowest sequence number leads. The others wait in the order of their nodes,
// as in package lock. So Java and Go candidates take part in one election. The two kinds of nodes
// are two elections, even below one path.
//
// # What it promises
//
//   - There is at most one leader whose term's context is not done.
//   - A term ends before its node is deleted, and so before the next term begins.
//   - A candidate whose session ends while it waits joins again. It stops only with its
//     context, with [framework.Client.Close], or with an error that a retry does not help.
//   - If Campaign fails, its node is deleted, even if the server carries out the create only
//     after that.
//   - A function that leads keeps its node until it has returned: see [Election.Run].
//
// # Run
//
// [Election.Run] deletes its node only after the function has returned, even when its context is
// done, after [Term.Release], and when the connection is suspended. So no other process leads while
// the function still works. Only the expiry of the session deletes the node earlier. If the
// function has not returned ten seconds after its context ended, that is logged, and again when it
// returns. If it panics, the node is deleted and the panic continues.
//
// After a term of less than 10 ms Run pauses, at first for about 10 ms, and longer after each such
// term in a row, up to about 3 s. An error that the function returns after its term has ended is
// logged, unless it only repeats the end of the context.
//
// # What it cannot promise
//
// A suspended process cannot know that it has lost the leadership. If something must never be done
// by two leaders, check the leadership where it happens: [Term.Guard] in ZooKeeper,
// [Term.FencingToken] anywhere else.
//
// If another client deletes the leader's node, or expires its session by force, the leader's
// context ends when the servers report that, which may be after the next term has begun.
//
// When a session ends, the servers delete its node, even if a function still leads. The function's
// context has ended by then.
package leader
