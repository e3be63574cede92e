package proto

import "strconv"

// Op is the kind of a request.
type Op int32

// The operations of the protocol.
const (
	OpCreate            Op = 1
	OpDelete            Op = 2
	OpExists            Op = 3
	OpGetData           Op = 4
	OpSetData           Op = 5
	OpGetACL            Op = 6
	OpSetACL            Op = 7
	OpGetChildren       Op = 8
	OpSync              Op = 9
	OpPing              Op = 11
	OpGetChildren2      Op = 12
	OpCheck             Op = 13 // only in a multi
	OpMulti             Op = 14
	OpCreate2           Op = 15
	OpReconfig          Op = 16
	OpCheckWatches      Op = 17
	OpRemoveWatches     Op = 18
	OpCreateContainer   Op = 19
	OpDeleteContainer   Op = 20
	OpCreateTTL         Op = 21
	OpMultiRead         Op = 22
	OpAuth              Op = 100
	OpSetWatches        Op = 101
	OpSASL              Op = 102
	OpGetEphemerals     Op = 103
	OpGetChildrenNumber Op = 104
	OpSetWatches2       Op = 105
	OpAddWatch          Op = 106
	OpWhoAmI            Op = 107
	OpConnect           Op = -10 // never sent: the handshake has its own form
	OpCloseSession      Op = -11
	OpError             Op = -1 // only in the results of a multi
)

var opNames = map[Op]string{
	OpCreate: "create", OpDelete: "delete", OpExists: "exists", OpGetData: "getData", OpSetData: "setData",
	OpGetACL: "getACL", OpSetACL: "setACL", OpGetChildren: "getChildren", OpSync: "sync", OpPing: "ping",
	OpGetChildren2: "getChildren2", OpCheck: "check", OpMulti: "multi", OpCreate2: "create2", OpReconfig: "reconfig",
	OpCheckWatches: "checkWatches", OpRemoveWatches: "removeWatches", OpCreateContainer: "createContainer",
	OpDeleteContainer: "deleteContainer", OpCreateTTL: "createTTL", OpMultiRead: "multiRead", OpAuth: "auth",
	OpSetWatches: "setWatches", OpSASL: "sasl", OpGetEphemerals: "getEphemerals",
	OpGetChildrenNumber: "getAllChildrenNumber", OpSetWatches2: "setWatches2", OpAddWatch: "addWatch",
	OpWhoAmI: "whoAmI", OpConnect: "connect", OpCloseSession: "closeSession", OpError: "error",
}

// String returns the name in ZooKeeper's documentation, such as "getChildren2".
func (o Op) String() string {
	if name, found := opNames[o]; found {
		return name
	}
	return "op " + strconv.Itoa(int(o))
}

// IsWrite reports whether the ensemble answers the operation, even with an error, only after a
// majority has committed a transaction for it. A sync is not a write: a leader answers it alone.
func (o Op) IsWrite() bool {
	switch o {
	case OpCreate, OpDelete, OpSetData, OpSetACL, OpMulti, OpCreate2, OpReconfig, OpCreateContainer, OpCreateTTL:
		return true
	}
	return false
}

// Transaction ids of replies without a request of that id.
const (
	XidEvent = -1
	XidPing  = -2
	XidAuth  = -4
)

// Types of events, in [WatcherEvent].
const (
	EventCreated         int32 = 1
	EventDeleted         int32 = 2
	EventDataChanged     int32 = 3
	EventChildrenChanged int32 = 4
)

// StateConnected is the state in each event of a watch.
const StateConnected int32 = 3

// Modes of a create.
const (
	FlagPersistent              int32 = 0
	FlagEphemeral               int32 = 1
	FlagSequential              int32 = 2
	FlagEphemeralSequential     int32 = 3
	FlagContainer               int32 = 4
	FlagTTL                     int32 = 5
	FlagPersistentSequentialTTL int32 = 6
)

// Modes of an addWatch.
const (
	WatchPersistent int32 = 0
	WatchRecursive  int32 = 1
)

// Kinds of watches in removeWatches and checkWatches. The last two are new in 3.9.
const (
	WatcherChildren   int32 = 1
	WatcherData       int32 = 2
	WatcherAny        int32 = 3
	WatcherPersistent int32 = 4
	WatcherRecursive  int32 = 5
)
