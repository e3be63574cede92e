package mutation

// matrixBugs are mutations of places where two things meet. Cells of the matrix must fail.
var matrixBugs = []group{
	{file: "recipes/barrier/double.go", pkg: "test/matrix", mutations: []mutation{
		{name: "each child of a double barrier is a member",
			old: "return uuid.Valid(name) || err == nil && len(digits) == 16", new: "return name != ready || err == nil && len(digits) == 16",
			test: "TestMatrix/double_barrier/server_a_foreign_child_below_the_path"},
		{name: "a panic of an observer leaves a member of a double barrier",
			old: "\t\tif err != nil {\n\t\t\ta.giveUp(err)", new: "\t\tif err != nil && err != errPanicked {\n\t\t\ta.giveUp(err)",
			test: "TestMatrix/double_barrier/server_observer_that_panics_at_the_third_operation"},
		{name: "a member whose session ended at the opening waits for ever",
			old: "\t\tif a.opening != s {\n\t\t\treturn nil, ErrMissed\n\t\t}\n", new: "",
			test: "TestMatrix/double_barrier/server_expire_after_at_request_6"},
	}},
	{file: "discovery/profiles.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a plain node keeps a compressing client from registering",
			old: "case unknown(err), errors.Is(err, zk.ErrNoNode), errors.Is(err, framework.ErrNotCompressed):", new: "case unknown(err), errors.Is(err, zk.ErrNoNode):",
			test: "TestMatrix/service/server_a_foreign_child_compression_below_|orders"},
	}},
	{file: "discovery/discovery.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a plain node hides the instances from a compressing client",
			old: "\tcase errors.Is(err, framework.ErrNotCompressed):\n\t\treturn nil, fmt.Errorf(\"%w: %w\", errUnreadable, err)\n", new: "",
			test: "TestMatrix/service/server_a_foreign_child_compression_below_|orders"},
	}},
	{file: "recipes/modeled/modeled.go", pkg: "test/matrix", mutations: []mutation{
		{name: "an unreadable node hides all typed nodes",
			old: "\t\t\tcase errors.Is(err, zk.ErrNoAuth):\n\t\t\t\tentries[i] = Entry[T]{Name: name, Err: err}\n", new: "",
			test: "TestMatrix/typed_nodes/server_an_unreadable_child_below_the_path"},
		{name: "a value that cannot be decoded hides all typed nodes",
			old: "case err == nil || errors.Is(err, ErrBadValue):", new: "case err == nil:",
			test: "TestMatrix/typed_nodes/server_a_child_with_garbage_below_the_path"},
		{name: "an empty node hides all typed nodes",
			old: "case errors.Is(err, zk.ErrNoNode): // deleted since, or a parent", new: "case errors.Is(err, zk.ErrNodeExists): // deleted since, or a parent",
			test: "TestMatrix/typed_nodes/server_a_foreign_child_without_data_below_the_path"},
	}},
	{file: "internal/engine/errors.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a kept node on the view of a lost session waits for another session",
			old: "\tcase s.Err() != nil:\n\t\treturn &Ended{s.Err()}\n", new: "",
			test: "TestMatrix/kept_node/server_view_of_a_session"},
	}},
	{file: "recipes/node/keeper.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a Keep logs what it returns",
			old: "case k.status().shown.number == 0 && k.fails(err):", new: "case false && k.fails(err):",
			test: "TestMatrix/kept_node_with_a_TTL/server_without_TTL_nodes"},
	}},
	{file: "discovery/dubbo/dubbo.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a Register of Dubbo that panics leaves its nodes",
			old: "\t\tif !registered {", new: "\t\tif !registered && err != nil {",
			test: "TestMatrix/Dubbo/server_observer_that_panics_at_the_third_operation"},
	}},
	{file: "recipes/once/once.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a job whose context ends does not look whether its success was recorded",
			old: "context.WithTimeout(context.WithoutCancel(ctx), hold.Session().Timeout())", new: "context.WithTimeout(ctx, hold.Session().Timeout())",
			test: "TestMatrix/job/server_lose_reply_cancel_at_request_10"},
	}},
	{file: "recipes/shard/run.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a deleted plan ends each member",
			old: "\t\tcase 0:\n\t\t\treturn p, nil\n", new: "",
			test: "TestMatrix/shards/server_another_client_deletes_all_nodes"},
	}},
	{file: "recipes/lock/delay.go", pkg: "test/matrix", mutations: []mutation{
		{name: "TryAcquire with a new lock each time never ends a delay",
			old: "Values().LoadOrStore(sightingsKey{}, ", new: "Values().LoadOrStore(new(int), ",
			test: "TestMatrix/mutex_with_lock_delay/server_namespace"},
	}},
	{file: "recipes/shard/planner.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a persistent node among the members gets shards",
			old: "n.Stat.EphemeralOwner != 0 && json", new: "json",
			test: "TestMatrix/shards/server_a_persistent_look-alike_at_|members|other"},
	}},
	{file: "recipes/leader/leader.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a candidate on the view of a lost session waits for another session",
			old: "\tif engine.Of(e.client).Over() != nil {\n\t\treturn false\n\t}\n", new: "",
			test: "TestMatrix/election/server_view_of_a_session"},
	}},
	{file: "recipes/semaphore/semaphore.go", pkg: "test/matrix", mutations: []mutation{
		{name: "AcquireN fails while the shared maximum is lower",
			old: "case n > max && s.count != nil && (mayWait || max == 0):", new: "case n > max && s.count != nil && max == 0 && !mayWait:",
			test: "TestMatrix/semaphore_with_a_shared_maximum/server_namespace"},
	}},
	{file: "recipes/semaphore/count.go", pkg: "test/matrix", mutations: []mutation{
		{name: "a waiter does not name the shared maximum that is too low",
			old: "case c.watch == nil || n <= c.max:", new: "case c.watch == nil || n <= c.max || true:",
			test: "TestMatrix/semaphore_with_a_shared_maximum/server_namespace"},
	}},
	{file: "discovery/kratosregistry/registry.go", pkg: "discovery/kratosregistry", mutations: []mutation{
		{name: "an unreadable child fails each Register of Kratos",
			old: "\t\tcase errors.Is(err, zk.ErrNoAuth): // servers since 3.8.4 return it\n", new: "",
			test: "TestMatrix/Kratos/server_an_unreadable_child_below_|orders"},
	}},
}
