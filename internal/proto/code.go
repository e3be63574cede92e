package proto

import "strconv"

// Code is the outcome of a request.
type Code int32

// The codes that servers send.
const (
	OK                       Code = 0
	SystemError              Code = -1
	RuntimeInconsistency     Code = -2 // in a multi: not applied because another operation failed
	DataInconsistency        Code = -3
	ConnectionLoss           Code = -4
	MarshallingError         Code = -5
	Unimplemented            Code = -6
	OperationTimeout         Code = -7
	BadArguments             Code = -8
	OutOfMemory              Code = -10 // a ClickHouse Keeper above its soft memory limit
	NewConfigNoQuorum        Code = -13
	UnknownSession           Code = -12 // SessionExpired of a standalone server
	ReconfigInProgress       Code = -14
	APIError                 Code = -100
	NoNode                   Code = -101
	NoAuth                   Code = -102
	BadVersion               Code = -103
	NoChildrenForEphemerals  Code = -108
	NodeExists               Code = -110
	NotEmpty                 Code = -111
	SessionExpired           Code = -112
	InvalidCallback          Code = -113
	InvalidACL               Code = -114
	AuthFailed               Code = -115
	SessionMoved             Code = -118
	NotReadOnly              Code = -119
	EphemeralOnLocalSession  Code = -120
	NoWatcher                Code = -121
	RequestTimeout           Code = -122
	ReconfigDisabled         Code = -123
	SessionClosedRequireSASL Code = -124
	QuotaExceeded            Code = -125
	Throttled                Code = -127
)

var codeNames = map[Code]string{
	OK: "ok", SystemError: "system error", RuntimeInconsistency: "runtime inconsistency",
	DataInconsistency: "data inconsistency", ConnectionLoss: "connection loss", MarshallingError: "marshalling error",
	Unimplemented: "unimplemented", OperationTimeout: "operation timeout", BadArguments: "bad arguments",
	OutOfMemory: "out of memory", UnknownSession: "unknown session",
	NewConfigNoQuorum: "new config has no quorum", ReconfigInProgress: "reconfig in progress", APIError: "API error",
	NoNode: "no node", NoAuth: "no auth", BadVersion: "bad version", NoChildrenForEphemerals: "no children for ephemerals",
	NodeExists: "node exists", NotEmpty: "not empty", SessionExpired: "session expired", InvalidCallback: "invalid callback",
	InvalidACL: "invalid ACL", AuthFailed: "auth failed", SessionMoved: "session moved", NotReadOnly: "not read-only",
	EphemeralOnLocalSession: "ephemeral on local session", NoWatcher: "no watcher", RequestTimeout: "request timeout",
	ReconfigDisabled: "reconfig disabled", SessionClosedRequireSASL: "session closed: SASL required",
	QuotaExceeded: "quota exceeded", Throttled: "throttled",
}

// String returns the code in words, such as "no node".
func (c Code) String() string {
	if name, found := codeNames[c]; found {
		return name
	}
	return "code " + strconv.Itoa(int(c))
}

// Committed reports whether a reply to op with this code shows that a majority of the ensemble has
// committed a transaction for the request. A write that the leader refuses is committed as well, as
// a transaction that changes nothing.
//
// A server answers some writes alone: a throttled one (-127) and, with enableEagerACLCheck, one
// that is not allowed (-102) or has an invalid ACL (-114); a multi is not checked there. So besides
// success only those codes count that require the leader's state of the nodes. A code that is
// missing here only delays the proof until the next reply.
func (c Code) Committed(op Op) bool {
	switch c {
	case OK, NoNode, BadVersion, NodeExists, NotEmpty:
		return op.IsWrite()
	case NoAuth:
		return op == OpMulti
	}
	return false
}
