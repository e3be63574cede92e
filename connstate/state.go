package connstate

import "fmt"

// State is the state of a client's connection. It is Curator's ConnectionState. The zero State
// means that the client has not connected yet, or was closed.
type State int

const (
	// Connected means that the client is connected for the first time. It occurs once. If the
	// client cannot reach a server at first, Suspended and Lost may precede it: see the package
	// comment.
	Connected State = iota + 1

	// Suspended means that the connection is lost, but the session may still be alive. Until it
	// reconnects, the client cannot verify its locks.
	Suspended

	// Reconnected means that the client is connected again. The session is the same unless the
	// previous state was Lost.
	Reconnected

	// Lost means that a server has reported that the session expired, or that no server has
	// confirmed the session in time. Its locks are lost.
	Lost
)

// IsConnected reports whether the client is connected in this state.
func (s State) IsConnected() bool { return s == Connected || s == Reconnected }

// String returns the state in words, such as "suspended".
func (s State) String() string {
	switch s {
	case 0:
		return "not connected"
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

// ErrorPolicy defines in which states a hold is cancelled.
type ErrorPolicy int

const (
	// SuspendedEndsHold cancels a hold at Suspended and at Lost. The holder stops as soon as it
	// cannot verify that it has the lock. It is the default, and Curator's
	// StandardConnectionStateErrorPolicy.
	SuspendedEndsHold ErrorPolicy = iota

	// LostEndsHold cancels a hold only at Lost. The holder continues during a short outage, until
	// the session's deadline at the latest. It is Curator's SessionConnectionStateErrorPolicy.
	LostEndsHold
)

// IsError reports whether a hold is cancelled in state s.
func (p ErrorPolicy) IsError(s State) bool {
	return s == Lost || s == Suspended && p != LostEndsHold
}

// String returns the policy in words, such as "lost ends hold".
func (p ErrorPolicy) String() string {
	switch p {
	case SuspendedEndsHold:
		return "suspended ends hold"
	case LostEndsHold:
		return "lost ends hold"
	}
	return fmt.Sprintf("policy %d", int(p))
}
