// Package matrix runs stories of recipes under conditions. [Run] multiplies both.
//
// A story is a day of one recipe: acquire, wait, release, lose; load, change, reconnect; register,
// call, drain. A condition is a set of hooks and client options: an option, a limit, a neighbour at
// the path, or the moment at which a client is closed.
//
// Each pair is a cell. It has two clients, A and B, and runs in process and in virtual time. The
// condition applies to A, and to B where both must agree. Then a second round runs at the same path
// without the condition.
//
// # What a cell requires
//
//   - The story works, or ends with an error that the condition allows.
//   - A wait that ends only with its deadline has a named reason, or a line in the log.
//   - No call of B fails unless the condition applies to B as well.
//   - No node remains after the story, except for the ones that the story declares.
//   - No goroutine remains. No client sends requests without end.
//   - A log line that names nodes that may remain is true. Without a disturbance nothing is logged.
//   - The second round works without an error and without a log line.
//
// A cell for which a page of the documentation allows something else is in the table of exceptions,
// beside the sentence that allows it.
package matrix
