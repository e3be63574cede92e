package mutation

// matrixBugs are mutations of places where two things meet. Cells of the matrix must fail.
var matrixBugs = []mutation{
	{
		name:  "each child of a double barrier is a member",
		file:  "recipes/barrier/double.go",
		edits: []edit{{old: "return uuid.Valid(name) || err == nil && len(digits) == 16", new: "return name != ready || err == nil && len(digits) == 16"}},
		pkg:   "test/matrix", test: "TestMatrix/double_barrier/server_a_foreign_child_below_the_path",
	},
	{
		name:  "a panic of an observer leaves a member of a double barrier",
		file:  "recipes/barrier/double.go",
		edits: []edit{{old: "\t\tif err != nil {\n\t\t\ta.giveUp(err)", new: "\t\tif err != nil && err != errPanicked {\n\t\t\ta.giveUp(err)"}},
		pkg:   "test/matrix", test: "TestMatrix/double_barrier/server_observer_that_panics_at_the_third_operation",
	},
	{
		name:  "a plain node keeps a compressing client from registering",
		file:  "discovery/profiles.go",
		edits: []edit{{old: "case unknown(err), errors.Is(err, zk.ErrNoNode), errors.Is(err, framework.ErrNotCompressed):", new: "case unknown(err), errors.Is(err, zk.ErrNoNode):"}},
		pkg:   "test/matrix", test: "TestMatrix/service/server_a_foreign_child_compression_below_|orders",
	},
	{
		name:  "a plain node hides the instances from a compressing client",
		file:  "discovery/discovery.go",
		edits: []edit{{old: "\tcase errors.Is(err, framework.ErrNotCompressed):\n\t\treturn nil, fmt.Errorf(\"%w: %w\", errUnreadable, err)\n", new: ""}},
		pkg:   "test/matrix", test: "TestMatrix/service/server_a_foreign_child_compression_below_|orders",
	},
	{
		name:  "an unreadable node hides all typed nodes",
		file:  "recipes/modeled/modeled.go",
		edits: []edit{{old: "\t\t\tcase errors.Is(err, zk.ErrNoAuth):\n\t\t\t\tentries[i] = Entry[T]{Name: name, Err: err}\n", new: ""}},
		pkg:   "test/matrix", test: "TestMatrix/typed_nodes/server_an_unreadable_child_below_the_path",
	},
	{
		name:  "a kept node on the view of a lost session waits for another session",
		file:  "internal/engine/errors.go",
		edits: []edit{{old: "\tcase s.Err() != nil:\n\t\treturn &Ended{s.Err()}\n", new: ""}},
		pkg:   "test/matrix", test: "TestMatrix/kept_node/server_view_of_a_session",
	},
	{
		name:  "a Keep logs what it returns",
		file:  "recipes/node/keeper.go",
		edits: []edit{{old: "case k.status().shown.number == 0 && k.fails(err):", new: "case false && k.fails(err):"}},
		pkg:   "test/matrix", test: "TestMatrix/kept_node_with_a_TTL/server_without_TTL_nodes",
	},
	{
		name:  "a Register of Dubbo that panics leaves its nodes",
		file:  "discovery/dubbo/dubbo.go",
		edits: []edit{{old: "\t\tif !registered {", new: "\t\tif !registered && err != nil {"}},
		pkg:   "test/matrix", test: "TestMatrix/Dubbo/server_observer_that_panics_at_the_third_operation",
	},
	{
		name:  "a job whose context ends does not look whether its success was recorded",
		file:  "recipes/once/once.go",
		edits: []edit{{old: "context.WithTimeout(context.WithoutCancel(ctx), hold.Session().Timeout())", new: "context.WithTimeout(ctx, hold.Session().Timeout())"}},
		pkg:   "test/matrix", test: "TestMatrix/job/server_lose_reply_cancel_at_request_10",
	},
	{
		name:  "a deleted plan ends each member",
		file:  "recipes/shard/run.go",
		edits: []edit{{old: "\t\tcase 0:\n\t\t\treturn p, nil\n", new: ""}},
		pkg:   "test/matrix", test: "TestMatrix/shards/server_another_client_deletes_all_nodes",
	},
	{
		name:  "TryAcquire with a new lock each time never ends a delay",
		file:  "recipes/lock/delay.go",
		edits: []edit{{old: "Values().LoadOrStore(sightingsKey{}, ", new: "Values().LoadOrStore(new(int), "}},
		pkg:   "test/matrix", test: "TestMatrix/mutex_with_lock_delay/server_namespace",
	},
	{
		name:  "a persistent node among the members gets shards",
		file:  "recipes/shard/planner.go",
		edits: []edit{{old: "n.Stat.EphemeralOwner != 0 && json", new: "json"}},
		pkg:   "test/matrix", test: "TestMatrix/shards/server_a_persistent_look-alike_at_|members|other",
	},
	{
		name:  "a candidate on the view of a lost session waits for another session",
		file:  "recipes/leader/leader.go",
		edits: []edit{{old: "\tif engine.Of(e.client).Over() != nil {\n\t\treturn false\n\t}\n", new: ""}},
		pkg:   "test/matrix", test: "TestMatrix/election/server_view_of_a_session",
	},
	{
		name:  "AcquireN fails while the shared maximum is lower",
		file:  "recipes/semaphore/semaphore.go",
		edits: []edit{{old: "case n > max && s.count != nil && (mayWait || max == 0):", new: "case n > max && s.count != nil && max == 0 && !mayWait:"}},
		pkg:   "test/matrix", test: "TestMatrix/semaphore_with_a_shared_maximum/server_namespace",
	},
	{
		name:  "a waiter does not name the shared maximum that is too low",
		file:  "recipes/semaphore/count.go",
		edits: []edit{{old: "case c.watch == nil || n <= c.max:", new: "case c.watch == nil || n <= c.max || true:"}},
		pkg:   "test/matrix", test: "TestMatrix/semaphore_with_a_shared_maximum/server_namespace",
	},
	{
		name:  "a value that cannot be decoded hides all typed nodes",
		file:  "recipes/modeled/modeled.go",
		edits: []edit{{old: "case err == nil || errors.Is(err, ErrBadValue):", new: "case err == nil:"}},
		pkg:   "test/matrix", test: "TestMatrix/typed_nodes/server_a_child_with_garbage_below_the_path",
	},
	{
		name:  "an empty node hides all typed nodes",
		file:  "recipes/modeled/modeled.go",
		edits: []edit{{old: "case errors.Is(err, zk.ErrNoNode): // deleted since, or a parent", new: "case errors.Is(err, zk.ErrNodeExists): // deleted since, or a parent"}},
		pkg:   "test/matrix", test: "TestMatrix/typed_nodes/server_a_foreign_child_without_data_below_the_path",
	},
	{
		name:  "a member whose session ended at the opening waits for ever",
		file:  "recipes/barrier/double.go",
		edits: []edit{{old: "\t\tif a.opening != s {\n\t\t\treturn nil, ErrMissed\n\t\t}\n", new: ""}},
		pkg:   "test/matrix", test: "TestMatrix/double_barrier/server_expire_after_at_request_6",
	},
	{
		name:  "an unreadable child fails each Register of Kratos",
		file:  "discovery/kratosregistry/registry.go",
		edits: []edit{{old: "\t\tcase errors.Is(err, zk.ErrNoAuth): // servers since 3.8.4 return it\n", new: ""}},
		pkg:   "discovery/kratosregistry", test: "TestMatrix/Kratos/server_an_unreadable_child_below_|orders",
	},
}
