// Package otelobserve exports what clients and locks do to OpenTelemetry, as metrics and spans. It is a module of its
// own, so users of the library do not inherit its dependencies.
//
//	observer, err := otelobserve.New()
//	client, err := framework.New(servers, framework.WithObserver(observer))
//
// One observer serves all clients of a process.
//
// # Metrics
//
//	curator.operation.duration      histogram, s    operations, with waits and retries; op, result
//	curator.operation.retries       counter         attempts after the first; op
//	curator.connection.state        up-down counter clients that are connected, suspended or lost; state
//	curator.connection.transitions  counter         changes to this state; state, "none" is a client closed
//	curator.lock.waiting            up-down counter acquires that are running; lock, kind
//	curator.lock.held               up-down counter leases held; lock, kind
//	curator.lock.wait.duration      histogram, s    from the call to the lease, if acquired; lock, kind
//	curator.lock.not_acquired       counter         acquires that failed; lock, kind, reason
//	curator.lock.hold.duration      histogram, s    from the lease to its end; lock, kind
//	curator.lock.losses             counter         leases that ended other than by release; lock, kind, cause
//	curator.lock.queue_length       histogram       nodes ahead when joining, where known; lock, kind
//
// The values of result, reason, cause, state and kind are those of [observe.Result], [observe.Reason],
// [observe.Cause], [observe.State] and [observe.Kind]: readers, writers and mutexes have series of their own,
// also on one path. A term of leadership is a lease of kind "election", and a campaign an acquire. As a
// LeaderSelector (leader.AsSelector) it is of kind "mutex", since its nodes are a mutex's. The attribute lock
// is there if [WithLockLabel] is given. Exported to Prometheus, the names are those of package
// observe/promobserve, and docs/dashboard.json of the library works with both.
//
// # Caches and kept nodes
//
// An observer gets nothing of caches and kept nodes. Each is observed under a name:
//
//	registration, err := otelobserve.ObserveCache(cache, "configuration") // also ObserveNode, ObserveMember
//	defer registration.Unregister()
//
//	curator.cache.nodes    gauge      nodes in the copy; cache
//	curator.cache.bytes    gauge, By  bytes of their data; cache
//	curator.cache.age      gauge, s   how long the copy may have been out of date, 0 while it is fresh; cache
//	curator.cache.reads    counter    requests sent to read nodes and lists; cache
//	curator.cache.resyncs  counter    how often everything was read, the first time included; cache
//	curator.node.present   gauge      1 while a kept node or a member of a group is there, otherwise 0; node
//
// docs/dashboard-caches.json of the library works with these, exported to Prometheus.
//
// # Spans
//
//	your span ── lock acquire ── zookeeper create, children, get, ...
//	         ╰── lock hold ── what is done with the hold's context
//
// "lock acquire" lasts from the call to its return. Its events "joined" say how many nodes are ahead. "lock
// hold" begins and ends with the lease; a loss is an error. hold.Context() carries it, so operations with that
// context are below it. Both are below the span of the context given to Acquire. Operations with that context
// itself stay below that span.
//
// "zookeeper <op>" is one operation with all its attempts. It is only recorded below another span, so
// background work starts no traces. Attributes have full paths: that costs a trace little, unlike a metric.
//
// A failure has the attribute error.type: its result, reason or cause. [WithServerAddress] sets the attribute
// server.address. The scope has the version of this module.
package otelobserve
