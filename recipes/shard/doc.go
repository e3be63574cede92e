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
//	<path>/members/<id>     a member, as [node.Keep] creates it; {"weight":1} as JSON
//	<path>/plan             JSON: a list with the id of the owner of each shard
//	<path>/planner          an election (package leader); its leader writes the plan
//	<path>/shards/<shard>   an election; its leader owns the shard
//
// # How it works
//
// One member is the planner. It follows the group and writes a plan 100 ms after a change: the plan
// in force, balanced again. Each member follows the plan. It campaigns for the shards that the plan
// gives to it, and gives up the others: it cancels the context of the function, waits until the
// function has returned, and releases the shard. The new owner is waiting by then.
//
// A function that returns nil while its member owns the shard is called again, after a pause that
// grows with each call of less than 10 ms. An error, a panic and runtime.Goexit are failures of the
// shard alone. They are logged, [State] names the shard, and its member calls the function again
// after 1 s, then 2 s, up to 1 minute. A minute without a failure resets the pause. An error that
// the function returns after its context has ended is logged.
//
// # What it promises
//
//   - At most one member runs a shard with a live context. Exclusion is the promise of package
//     leader, so a stale plan costs time and never exclusion.
//   - The shards of two members of equal weight differ by at most one once a plan is in force. With
//     weights, each member has its exact share, rounded up or down.
//   - As few shards move as balance allows. When one of m members joins or leaves, at most ⌈n/m⌉
//     shards change owners.
//   - A member that runs again with its id before its old session has expired gets its shards back
//     when that session expires.
//   - While the plan cannot be read, written or decoded, or would exceed the request limit, the
//     shards stay with their owners, and a line is logged. A deleted plan is written again.
//   - A shard is released only after its function has returned. A function that continues after its
//     context has ended is logged, and keeps the shard as long as the session lives.
//
// # What it cannot promise
//
// A suspended process cannot know that it has lost a shard. If something must not be done by two
// owners, check the shard where it happens: [Term] has a guard and a fencing token.
//
// A member that crashes keeps its shards until its session expires. If the planner is suspended,
// the next plan is written when the planner's session has expired.
//
// Only an ephemeral node below members is a member.
//
// The number of shards is fixed by the first Run. To change it, stop all members, delete the
// path, and start them with the new number.
package shard
