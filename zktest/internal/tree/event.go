package tree

import (
	"strings"

	"github.com/gocurator/curator/internal/proto"
)

// EventType is the type of a watch event.
type EventType int32

// The types of events.
const (
	EventCreated  = EventType(proto.EventCreated)
	EventDeleted  = EventType(proto.EventDeleted)
	EventChanged  = EventType(proto.EventDataChanged)
	EventChildren = EventType(proto.EventChildrenChanged)
)

var eventNames = map[EventType]string{
	EventCreated: "created", EventDeleted: "deleted", EventChanged: "changed", EventChildren: "children changed",
}

// String returns the type in words, such as "children changed".
func (e EventType) String() string { return eventNames[e] }

// Event is a change of a node that may fire watches.
type Event struct {
	Kind EventType
	Path string
	ACL  []proto.ACL // the node's ACL; a client without read permission receives no event
}

// Below reports whether path is under root.
func Below(path, root string) bool {
	return root == "/" || strings.HasPrefix(path, root+"/")
}
