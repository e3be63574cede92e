// Package shard divides n shards among the members of a group, with at most one owner for each
// shard at any instant.
//
//	member, err := shard.New(client, "/ingest", "host-7", 64)
//	if err != nil { ... }
//	err = member.Run(ctx, func(ctx context.Context, shard int) error {
//		return consume(ctx, shard) // ctx is cancelled before another member can own the shard
//	})
//
// Curator has no such recipe. Unlike kazoo's SetPartitioner, a change of the group does not stop
// the shards that stay where they are.
//
// # On the wire
//
//	<path>/members/<id>     a member, an ephemeral node; {"weight":1,"grace":30000} as JSON
//	<path>/plan             the owner of each shard, the graces and the refusals, as JSON
//	<path>/planner          an election (package leader); its leader writes the plan
//	<path>/shards/<shard>   an election; its leader owns the shard
//	<path>/time-<uuid>      exists within one transaction, which shows the servers' time
//
// # How it works
//
// One member is the planner. It follows the group and writes a plan 100 ms after a change: the plan
// in force, balanced again. Each member follows the plan. It campaigns for the shards that the plan
// gives to it, and gives up the others. For each of these it cancels the context of the function,
// waits until the function has returned, and releases the shard. The new owner is waiting by then.
//
// # What it promises
//
//   - At most one member runs a shard with a live context. Exclusion is the promise of package
//     leader, so a stale plan costs time and never exclusion.
//   - The shards of two members of equal weight differ by at most one once a plan is in force, and
//     by two more for each shard that a member refuses. With weights, each member has its exact
//     share, rounded up or down.
//   - A member that runs again with its id before its old session has expired gets its shards back
//     when that session expires.
//   - While the plan cannot be read, written or decoded, or would exceed the request limit, the
//     shards stay with their owners, and a line is logged. A deleted plan is written again.
//   - A shard is released only after its function has returned. A function that continues after its
//     context has ended is logged, named by [State], and keeps the shard as long as the session
//     lives.
//
// # Moves
//
// As few shards move as balance allows. With n shards and m members of equal weight, absent ones
// included, at most these numbers of shards move, while no member refuses a shard.
//
//	event                                            moves
//	all members start, with WithSettling             0
//	a member leaves or dies within WithGrace         0, and none runs its shards
//	it returns within its grace                      0, if no other member has joined or left
//	its grace is over                                its shards
//	a member leaves, dies or drains without a grace  its shards
//	a member joins                                   ⌈n/(m+1)⌉
//	all members restart within their grace           0
//	a function fails in its member                   m-1, of its shard alone
//	the plan is lost or cannot be written            0
//
// The absent members count with the shards that are reserved for them. A member that joins takes
// more, up to an equal share of the members that are present, if an absent one has few.
//
// # What it cannot promise
//
// A suspended process cannot know that it has lost a shard. If something must not be done by two
// owners, check the shard where it happens: [Term] has a guard and a fencing token.
//
// A function that ends its process fails in each member, one after the other.
//
// A member that crashes keeps its shards until its session expires. If the planner is suspended,
// the next plan is written when the planner's session has expired. Another planner waits for
// [WithSettling] if it has just started.
//
// If a leader with another clock is elected, a grace may be shorter, or start anew.
//
// Only an ephemeral node below members is a member.
//
// The number of shards is fixed by the first Run. To change it, stop all members, delete the
// path, and start them with the new number.
package shard
