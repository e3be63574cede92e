package zktest

import "fmt"

// Event is one line of a trace: a request with its result, or a watch event.
type Event struct {
	Session int64

	// Of a request. Result is "ok", the path of the created node, the children in brackets, or an
	// error in words. It is empty if a fault kept the request from being applied.
	Request Request
	Result  string
	Fault   Fault // 0: none

	// Of a watch: "created", "deleted", "changed" or "children changed", and where.
	Watch string
	Path  string
}

// String returns the event in one line, such as
// "create /l/n- ephemeral+sequential -> /l/n-0000000001" or "deleted /l/n-0000000000".
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
