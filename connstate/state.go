package connstate

import "fmt"

// State is the state of a client's connection: Curator's ConnectionState. The zero State means not connected yet.
type State int

const (
	// Connected is the first connection of a client. It occurs once, and is nearly always the first state. Only
	// a client that cannot reach any server is Suspended and Lost before: see the package comment.
	Connected State = iota + 1

	// Suspended means that the connection is lost, while the session may still live. We may still hold our
	// locks, but cannot verify it.
	Suspended

	// Reconnected means that there is a connection again: with the same session if
	// the state before was Suspended, with a new one if it was Lost.
	Reconnected

	// Lost means that the session has ended: a server said so, or none has confirmed the session in time. Its
	// locks are lost.
	Lost
)

// IsConnected reports whether there is a connection in this state.
func (s State) IsConnected() bool { return s == Connected || s == Reconnected }

// String is the state in words, such as "suspended".
func (s State) String() string {
	switch s {
	case 0:
		return "not connected yet"
	case Connected:
		return "connected"
	case Suspended:
		return "suspended"
	case Reconnected:
		return "reconnected"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("state %d", int(s))
}

// ErrorPolicy says which states end a hold.
type ErrorPolicy int

const (
	// Standard ends a hold at Suspended and at Lost: a holder stops as soon as it cannot verify that it holds.
	// It is Curator's StandardConnectionStateErrorPolicy.
	Standard ErrorPolicy = iota

	// Session ends a hold only at Lost: a holder keeps working through a short outage, up to the session's
	// deadline. It is Curator's SessionConnectionStateErrorPolicy.
	Session
)

// IsError reports whether s ends a hold.
func (p ErrorPolicy) IsError(s State) bool {
	return s == Lost || s == Suspended && p != Session
}

// String is the policy in a word: "standard" or "session".
func (p ErrorPolicy) String() string {
	switch p {
	case Standard:
		return "standard"
	case Session:
		return "session"
	}
	return fmt.Sprintf("policy %d", int(p))
}
