// Package promobserve exports what clients and locks do to Prometheus. It is a module of its own, so users of
// the library do not inherit its dependencies.
//
//	observer, err := promobserve.New(registry)
//	client, err := framework.New(servers, framework.WithObserver(observer))
//
// One observer serves all clients of a process. A Grafana dashboard for these metrics is in
// docs/dashboard.json of the library.
//
// # Metrics
//
//	curator_operation_duration_seconds{op,result}      histogram  operations, with waits and retries
//	curator_operation_retries_total{op}                counter    attempts after the first
//	curator_connection_state{state}                    gauge      clients that are connected, suspended or lost
//	curator_connection_transitions_total{state}        counter    changes to this state; "none" is a client closed
//	curator_lock_waiting{lock,kind}                    gauge      acquires that are running
//	curator_lock_held{lock,kind}                       gauge      leases held
//	curator_lock_wait_duration_seconds{lock,kind}      histogram  from the call to the lease, if acquired
//	curator_lock_not_acquired_total{lock,kind,reason}  counter    acquires that failed
//	curator_lock_hold_duration_seconds{lock,kind}      histogram  from the lease to its end
//	curator_lock_losses_total{lock,kind,cause}         counter    leases that ended other than by release
//	curator_lock_queue_length{lock,kind}               histogram  nodes ahead when joining, where known
//
// The values of result, reason, cause, state and kind are those of [observe.Result], [observe.Reason],
// [observe.Cause], [observe.State] and [observe.Kind]: readers, writers and mutexes have series of their own, also on
// one path. A term of leadership is a lease of kind "election", and a campaign an acquire. As a LeaderSelector
// (leader.AsSelector) it is of kind "mutex", since its nodes are a mutex's.
//
// # Caches and kept nodes
//
// An observer gets nothing of caches and kept nodes. Each has a collector with a name, on the same registry or another:
//
//	collector, err := promobserve.NewCacheCollector(cache, "configuration")
//	registry.MustRegister(collector)
//
//	curator_cache_nodes{cache}          gauge    nodes in the copy
//	curator_cache_bytes{cache}          gauge    bytes of their data
//	curator_cache_age_seconds{cache}    gauge    how long the copy may have been out of date; 0 while it is fresh
//	curator_cache_reads_total{cache}    counter  requests sent to read nodes and lists
//	curator_cache_resyncs_total{cache}  counter  how often everything was read, the first time included
//	curator_node_present{node}          gauge    1 while a kept node or a member of a group is there, otherwise 0
//
// docs/dashboard-caches.json of the library is the Grafana dashboard for these.
//
// # The label lock
//
// Without [WithLockLabel] it is empty, which Prometheus treats as absent. Paths are not labels by default: each
// new path would be a new set of series for ever, and many services have a path for each object that they lock.
// Each lease of a semaphore is reported at <path>/leases.
package promobserve
