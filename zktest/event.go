package zktest

import "fmt"

// Event is one line of a trace: a request and its result, or a watch event.
type Event struct {
	Session int64

	// Request, Result and Fault describe a request. Result is "ok", the path of the created node,
	// the children in brackets, or an error in words. Result is empty if a fault kept the request
	// from being applied.
	Request Request
	Result  string
	Fault   Fault // 0 without a fault

	// Watch and Path describe a watch event: "created", "deleted", "changed" or "children changed",
	// and the node's path.
	Watch string
	Path  string
}

// String returns the event as one line, such as "create /l/n- ephemeral+sequential ->
// /l/n-0000000001" or "deleted /l/n-0000000000".
func (e Event) String() string {
	if e.Watch != "" {
		return e.Watch + " " + e.Path
	}
	line := e.Request.String()
	if e.Result != "" {
		line += " -> " + e.Result
	}
	if e.Fault != 0 {
		line += fmt.Sprintf(" (%v)", e.Fault)
	}
	return line
}
