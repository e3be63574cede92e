package framework

import (
	"github.com/go-zookeeper/zk"
)

// OpOption is an option of [SetOp], [DeleteOp] and [CheckOp]: [IfVersion].
type OpOption interface{ opVersion() int32 }

// CreateOpOption is an option of [CreateOp], and of [Client.Create]: [As] or [ACL].
type CreateOpOption interface {
	CreateOption
	createOp(op *zk.CreateRequest)
}

// CreateOp returns an operation of a [Client.Multi] that creates a node. The default mode is
// persistent. A node with a TTL is created by a *zk.CreateTTLRequest.
func CreateOp(path string, data []byte, opts ...CreateOpOption) *zk.CreateRequest {
	op := &zk.CreateRequest{Path: path, Data: data}
	for _, o := range opts {
		if o == nil {
			return nil // Multi refuses it
		}
		o.createOp(op)
	}
	return op
}

// SetOp returns an operation of a [Client.Multi] that replaces a node's data, whatever their
// version.
func SetOp(path string, data []byte, opts ...OpOption) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: path, Data: data, Version: versionOf(opts)}
}

// DeleteOp returns an operation of a [Client.Multi] that deletes a node, whatever its version. The
// node must not have children.
func DeleteOp(path string, opts ...OpOption) *zk.DeleteRequest {
	return &zk.DeleteRequest{Path: path, Version: versionOf(opts)}
}

// CheckOp returns an operation of a [Client.Multi] that fails unless the node exists. With
// [IfVersion] its data must have this version.
func CheckOp(path string, opts ...OpOption) *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: path, Version: versionOf(opts)}
}

// badVersion is the version of an operation whose options are invalid. Multi refuses it. It is the
// last version that a node reaches: those after it, -1 and 0, have a meaning.
const badVersion int32 = anyVersion - 1

// versionOf returns the version that options set.
func versionOf(opts []OpOption) int32 {
	version := anyVersion
	for _, o := range opts {
		if o == nil || o.opVersion() == anyVersion {
			return badVersion
		}
		version = o.opVersion()
	}
	return version
}
