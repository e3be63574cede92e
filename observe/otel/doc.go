// Package otel shows OpenTelemetry what clients and locks do, as metrics and spans. It is a module of
// its own, so that who does not want it inherits nothing.
//
//	observer, err := otel.New()
//	client, err := framework.New(servers, framework.WithObserver(observer))
//
// One observer serves all clients of a process.
//
// # Metrics
//
//	curator.operation.duration      histogram, s    operations, with waiting and repeating; op, result
//	curator.operation.retries       counter         attempts after the first; op
//	curator.connection.state        up-down counter clients in this state; state
//	curator.connection.transitions  counter         changes to this state; state, "none" is a client closed
//	curator.lock.waiting            up-down counter acquires under way; lock, kind
//	curator.lock.held               up-down counter leases held; lock, kind
//	curator.lock.wait.duration      histogram, s    from the call to the lease, if it was got; lock, kind
//	curator.lock.not_acquired       counter         acquires that failed; lock, kind, reason
//	curator.lock.hold.duration      histogram, s    from the lease to its end; lock, kind
//	curator.lock.losses             counter         leases that ended other than by release; lock, kind, cause
//	curator.lock.queue_length       histogram       nodes ahead when joining, where known; lock, kind
//
// The values of result, reason, cause, state and kind are those of [observe.Result], [observe.Reason], [observe.Cause],
// [observe.State] and [observe.Kind]: readers, writers and mutexes have series of their own, also on one path. A
// term of leadership is a lease of kind "election", and a campaign an acquire. As a LeaderSelector (leader.AsSelector)
// it is of kind "mutex", since its nodes are a mutex's. The
// attribute lock is there if [WithLockLabel] says what a path is called. Exported to Prometheus, the names are those of
// package observe/prometheus, and docs/dashboard.json of the library serves both.
//
// # Spans
//
//	your span ── lock acquire ── zookeeper create, children, get, ...
//	         ╰── lock hold ── what is done with the hold's context
//
// "lock acquire" is from the call to its return. Its events "joined" say how many are ahead. "lock
// hold" begins with the lease and ends with it; a loss is an error. Its context is that of the
// hold, so what is done with hold.Context() is below it. Both are below the span of the context
// that the lock is acquired with; what is done with that context itself stays there.
//
// "zookeeper <op>" is one operation, with all its attempts. There are such spans only
// below another, so that what is done for no one in particular starts no traces. Attributes
// are full paths: a trace, unlike a metric, can bear that.
//
// What has failed has the attribute error.type: its result, reason or cause. [WithServerAddress] is the attribute
// server.address. The scope has the version of this module.
package otel
