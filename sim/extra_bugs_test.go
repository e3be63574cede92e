package sim

// extraBugs are those that worlds with other recipes beside the contenders find, and worlds of several locks.
var extraBugs = []planted{
	{"a leader that resigns deletes its node while its function goes on", []edit{
		{"recipes/leader/term.go", "\tended := t.Err()\n\tt.end(lock.ErrReleased)\n", "\tended := t.Err()\n\tt.end(lock.ErrReleased)\n\t_ = t.release()\n"},
	}},
	{"an observer does not look again after a change", []edit{
		{"recipes/leader/observe.go", "\t\t\tcase <-watch.Done():\n", "\t\t\tcase <-watch.Done():\n\t\t\t\t<-within.Done()\n"},
	}},
	{"an observer's first state may be old", []edit{
		{"recipes/leader/observe.go", "if err := engine.Ask(ctx, l.CatchUp); err != nil {", "if err := ctx.Err(); err != nil {"},
	}},
	{"a write to a shared value whose reply was lost counts as refused", []edit{
		{"recipes/shared/write.go", "err = v.settle(ctx, session, mark, err)", "err = zk.ErrBadVersion"},
	}},
	{"a write to a shared value whose reply was lost is sent again", []edit{
		{"recipes/shared/write.go", "err = v.settle(ctx, session, mark, err)", "number = -1\n\t\t\tcontinue"},
	}},
	{"a shared value is written whatever its version", []edit{
		{"recipes/shared/write.go", "err = v.write(ctx, set, version.number, data)", "err = v.write(ctx, set, -1, data)"},
	}},
	{"a double barrier opens with one too few", []edit{{"recipes/barrier/double.go", "if len(members(names)) >= a.n {", "if len(members(names)) >= a.n-1 {"}}},
	{"a member that is not the first stays while it waits for the others to leave", []edit{
		{"recipes/barrier/double.go", "if alone || names[0] != own {", "if alone {"},
	}},
	{"a member that leaves does not wait for the others", []edit{{"recipes/barrier/double.go", "\tother := names[0]\n", "\tif names[0] != own {\n\t\treturn nil, follow.Done\n\t}\n\tother := names[0]\n"}}},
	{"a member that gives up stays", []edit{{"recipes/barrier/double.go", "_, _ = d.client.DeleteGuaranteed(ctx, member)", "_, _ = ctx, member"}}},
	{"a wait at a barrier begins with a server that is behind", []edit{
		{"recipes/internal/follow/follow.go", "if err := engine.Ask(ctx, l.CatchUp); err != nil {", "if err := ctx.Err(); err != nil {"},
	}},
	{"a lease is granted by a count that has fallen", []edit{
		{"recipes/semaphore/semaphore.go", "err == nil && now == falls {", "err == nil && now >= 0 {\n\t\t\t_ = falls"},
	}},
	{"a waiter does not follow the count", []edit{{"recipes/semaphore/count.go", "\t\tif c.adopt(int(n), watch) {", "\t\tif c.watch != nil || c.adopt(int(n), watch) {"}}},
	{"a multilock that fails keeps what it has", []edit{{"recipes/multilock/multilock.go", "lockapi.Leave(given...)", "lockapi.Leave(given[:0]...)"}}},
	{"the first release of a lock with several holds deletes the node", []edit{{"recipes/lock/lease.go", "d.last = len(l.holds) == 0", "d.last = true"}}},
	{"a forced revocation leaves the node", []edit{{"recipes/revocable/revoke.go", "err = client.Delete(ctx, path, -1)", "err = nil"}}},
	{"a revocation is written to nobody's node", []edit{{"recipes/revocable/revoke.go", "_, err = client.Set(ctx, path, []byte(r.message), -1)", "_ = stat"}}},
	{"a list of instances stays as it was at the beginning", []edit{
		{"discovery/watch.go", "\t\tw.known = nil\n", "\t\tif w.known == nil {\n\t\t\tw.known = nil\n\t\t}\n"},
	}},
	{"a closed registration stays", []edit{{"discovery/register.go", "\treturn r.node.Close()\n", "\treturn nil\n"}}},
}
