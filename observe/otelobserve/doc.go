// Package otelobserve exports metrics and spans of clients and locks to OpenTelemetry. It is a
// separate module, so users of the library do not inherit its dependencies.
//
//	observed, err := otelobserve.New()
//	client, err := framework.New(servers, observed)
//
// One option serves all clients of a process.
//
// # Metrics
//
//	curator.operation.duration      histogram, s    operations with retries; op, result
//	curator.operation.retries       counter         attempts after the first; op
//	curator.connection.state        up-down counter clients in this state; state
//	curator.connection.transitions  counter         changes; state, none is a closed client
//	curator.lock.waiting            up-down counter acquires that are running; lock, kind
//	curator.lock.held               up-down counter leases held; lock, kind
//	curator.lock.wait.duration      histogram, s    from the call to the lease; lock, kind
//	curator.lock.not_acquired       counter         acquires that failed; lock, kind, reason
//	curator.lock.hold.duration      histogram, s    from the lease to its end; lock, kind
//	curator.lock.losses             counter         leases lost; lock, kind, cause
//	curator.lock.queue_length       histogram       nodes ahead when joining; lock, kind
//
// The attributes are called curator.op, curator.result and so on.
//
// The attribute result is "ok", "no_node", "node_exists", "bad_version", "not_empty", "no_auth",
// "auth_failed", "canceled", "timeout" (of the caller's context), "no_server", "connection" (any
// other loss of the connection), "session_lost", "suspended", "closed" or "other".
//
// The attribute reason is "held" (by another client, from TryAcquire), "canceled", "timeout",
// "no_server", "session_lost", "suspended", "node_deleted", "sequence_exhausted", "connection",
// "closed", "shutdown" or "other".
//
// The attribute cause is "session_lost", "suspended", "node_deleted", "revoked", "max_hold",
// "closed" or "other".
//
// The attribute kind is "mutex" (also the queue of a semaphore, at <path>/locks), "read", "write",
// "lease", "election", "kazoo" or "other". Readers, writers and mutexes have separate series, even
// on one path. A term of leadership is a lease of kind "election", and a campaign an acquire. The
// kind of a LeaderSelector (leader.WithSelector) is "mutex", because its nodes are the nodes of a
// mutex.
//
// The attribute curator.lock exists with [WithLockLabel]. The series of waiting, held and losses
// exist from the first acquire of a lock on, with the value 0.
//
// In Prometheus the metrics have the names of package observe/promobserve, and labels such as
// curator_kind. With this rule for the scrape, the dashboards and alerts in docs of the library
// work with both:
//
//	metric_relabel_configs:
//	  - action: labelmap
//	    regex: curator_(op|result|reason|cause|kind|lock|state|cache|node)
//
// # Caches and kept nodes
//
// The option does not observe caches and kept nodes. Each is observed under a name, by
// [ObserveCache], [ObserveNode] or [ObserveMember]:
//
//	registration, err := otelobserve.ObserveCache(cache, "configuration")
//	defer registration.Unregister()
//
//	curator.cache.nodes    gauge      nodes in the copy; cache
//	curator.cache.bytes    gauge, By  bytes of their data; cache
//	curator.cache.age      gauge, s   age of the copy, 0 while it is current; cache
//	curator.cache.reads    counter    requests sent to read nodes and lists; cache
//	curator.cache.resyncs  counter    reads of the whole tree; cache
//	curator.node.present   gauge      1 while the node exists, otherwise 0; node
//
// A closed cache keeps its values, and its age rises, until its registration is unregistered.
//
// # Spans
//
//	your span ── lock acquire ── zookeeper create, children, get, ...
//	         ╰── lock hold ── operations with the hold's context
//
// "lock acquire" lasts from the call to its return. Its events "joined" have the number of nodes
// ahead. "lock hold" begins and ends with the lease; a loss is an error. hold.Context() carries the
// span, and so does the context inside a Do of one lock that acquires: operations with these
// contexts are below the span. With another context, hold.Do keeps that context's span. Both spans
// are below the span of the context given to Acquire. Operations with that context itself remain
// below that context's span.
//
// "zookeeper <op>" is one operation with all its attempts. It is recorded only below another span,
// so background work starts no traces. Attributes have full paths, which are too many for metrics
// but not for traces.
//
// A failure has the attribute error.type: its result, reason or cause. [WithServerAddress] sets the
// attribute server.address. The scope has the version of this module.
package otelobserve
