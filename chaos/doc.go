// Package chaos has contenders use a lock, or lead in turn, on a real ensemble while servers are killed, paused,
// cut off and frozen, a leader that has been replaced loses its clients, sessions ended, and contenders stopped and killed. Then it proves from what
// they recorded that no two holds that exclude each other were live at the same time.
//
//	make chaos DURATION=15m SEED=1 RUN=TestMutex
//
// Half of the contenders are clients in the process of the test, half are processes of their own: this test
// program again. All of them take their instants from one clock, CLOCK_MONOTONIC, which is why this package
// has tests on Linux only.
//
// The seed decides the faults and their order. What a run does also depends on time, so the same seed is
// the same weather, not the same run. A run that fails writes its history to a file. A run that
// ends prints the table of docs/TRACK.md.
package chaos
