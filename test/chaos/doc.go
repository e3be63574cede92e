// Package chaos runs contenders for a lock, a leadership or a job on a real ensemble. Servers are
// killed, paused, cut off and frozen, a replaced leader loses its clients, sessions expire, and
// contenders are stopped and killed. From the records it proves that no two holds that exclude each
// other were live at the same time, and that no key of the job has succeeded twice.
//
//	make chaos DURATION=15m SEED=1 RUN=TestMutex
//
// Half of the contenders are clients in the test process, half are separate processes: this test
// program again. All of them read one clock, CLOCK_MONOTONIC, which is why this package has tests
// on Linux only.
//
// The seed decides the faults and their order. A run also depends on time, so the same seed is the
// same weather, not the same run. A failed run writes its history to a file. A complete run prints
// the table of README.md.
package chaos
