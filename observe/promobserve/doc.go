// Package promobserve exports metrics of clients and locks to Prometheus. It is a separate module,
// so users of the library do not inherit its dependencies.
//
//	observed, err := promobserve.New(registry)
//	client, err := framework.New(servers, observed)
//
// One option serves all clients of a process. A Grafana dashboard for these metrics is in
// docs/dashboard.json of the library.
//
// # Metrics
//
//	curator_operation_duration_seconds{op,result}      histogram  operations with retries
//	curator_operation_retries_total{op}                counter    attempts after the first
//	curator_connection_state{state}                    gauge      clients in this state
//	curator_connection_transitions_total{state}        counter    changes; none is a closed client
//	curator_lock_waiting{lock,kind}                    gauge      acquires that are running
//	curator_lock_held{lock,kind}                       gauge      leases held
//	curator_lock_wait_duration_seconds{lock,kind}      histogram  from the call to the lease
//	curator_lock_not_acquired_total{lock,kind,reason}  counter    acquires that failed
//	curator_lock_hold_duration_seconds{lock,kind}      histogram  from the lease to its end
//	curator_lock_losses_total{lock,kind,cause}         counter    leases lost before their release
//	curator_lock_queue_length{lock,kind}               histogram  nodes ahead when joining
//
// The label result is "ok", "no_node", "node_exists", "bad_version", "not_empty", "no_auth",
// "auth_failed", "canceled", "timeout" (of the caller's context), "no_server", "connection" (any
// other loss of the connection), "session_lost", "suspended", "closed" or "other".
//
// The label reason is "held" (by another client, from TryAcquire), "canceled", "timeout",
// "no_server", "session_lost", "suspended", "node_deleted", "sequence_exhausted", "connection",
// "closed", "shutdown" or "other".
//
// The label cause is "session_lost", "suspended", "node_deleted", "revoked", "max_hold", "closed"
// or "other".
//
// The label kind is "mutex" (also the queue of a semaphore, at <path>/locks), "read", "write",
// "lease", "election", "kazoo" or "other". Readers, writers and mutexes have separate series, even
// on one path. A term of leadership is a lease of kind "election", and a campaign an acquire. The
// kind of a LeaderSelector (leader.WithSelector) is "mutex", because its nodes are the nodes of a
// mutex.
//
// The series of a lock's waiting, held, wait duration and losses exist from the first acquire of
// the lock on, with the value 0. So an election in which no candidate has ever led has a gauge that
// says so.
//
// # Caches and kept nodes
//
// The option does not observe caches and kept nodes. Each has a collector with a name, on the same
// registry or another:
//
//	collector, err := promobserve.NewCacheCollector(cache, "configuration")
//	registry.MustRegister(collector)
//
//	curator_cache_nodes{cache}          gauge    nodes in the copy
//	curator_cache_bytes{cache}          gauge    bytes of their data
//	curator_cache_age_seconds{cache}    gauge    age of the copy; 0 while it is current
//	curator_cache_reads_total{cache}    counter  requests sent to read nodes and lists
//	curator_cache_resyncs_total{cache}  counter  reads of the whole tree
//	curator_node_present{node}          gauge    1 while the node exists, otherwise 0
//
// A closed cache keeps its values, and its age rises, until its collector is unregistered.
// docs/dashboard-caches.json of the library is the Grafana dashboard for these metrics.
//
// # The label lock
//
// Without [WithLockLabel] the label is empty, which Prometheus treats as absent. Paths are not
// labels by default: each new path would be a new set of series for ever, and many services have a
// path for each object that they lock. Each lease of a semaphore is reported at <path>/leases.
package promobserve
