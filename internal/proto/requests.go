package proto

// NewRequest returns an empty record for the body of requests of op, to be decoded. It returns nil
// if op has no body, or is not known.
func NewRequest(op Op) Record {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return new(CreateRequest)
	case OpCreateTTL:
		return &CreateRequest{WithTTL: true}
	case OpDelete, OpCheck:
		return new(VersionRequest)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		return new(ReadRequest)
	case OpSetData:
		return new(SetDataRequest)
	case OpGetACL, OpSync, OpGetEphemerals, OpGetChildrenNumber:
		return new(PathRequest)
	case OpSetACL:
		return new(SetACLRequest)
	case OpMulti, OpMultiRead:
		return new(MultiRequest)
	case OpReconfig:
		return new(ReconfigRequest)
	case OpCheckWatches, OpRemoveWatches, OpAddWatch:
		return new(WatchRequest)
	case OpAuth:
		return new(AuthRequest)
	case OpSASL:
		return new(SASLToken)
	case OpSetWatches:
		return new(SetWatchesRequest)
	case OpSetWatches2:
		return &SetWatchesRequest{WithPersistent: true}
	}
	return nil
}

// PathRequest is the body of getACL, sync, getEphemerals and getAllChildrenNumber.
type PathRequest struct{ Path string }

// Append implements [Record].
func (r *PathRequest) Append(b []byte) []byte { return AppendString(b, r.Path) }

// Decode implements [Record].
func (r *PathRequest) Decode(d *Decoder) { r.Path = d.String() }

// ReadRequest is the body of exists, getData, getChildren and getChildren2.
type ReadRequest struct {
	Path  string
	Watch bool
}

// Append implements [Record].
func (r *ReadRequest) Append(b []byte) []byte { return AppendBool(AppendString(b, r.Path), r.Watch) }

// Decode implements [Record].
func (r *ReadRequest) Decode(d *Decoder) { r.Path, r.Watch = d.String(), d.Bool() }

// CreateRequest is the body of create, create2, createContainer and, with WithTTL, createTTL.
type CreateRequest struct {
	Path    string
	Data    []byte
	ACL     []ACL
	Flags   int32
	WithTTL bool  // must be set before Decode as well: it is not part of the body
	TTL     int64 // milliseconds
}

// Append implements [Record].
func (r *CreateRequest) Append(b []byte) []byte {
	b = AppendInt32(AppendACLs(AppendBytes(AppendString(b, r.Path), r.Data), r.ACL), r.Flags)
	if r.WithTTL {
		b = AppendInt64(b, r.TTL)
	}
	return b
}

// Decode implements [Record].
func (r *CreateRequest) Decode(d *Decoder) {
	r.Path, r.Data, r.ACL, r.Flags = d.String(), d.Bytes(), d.ACLs(), d.Int32()
	if r.WithTTL {
		r.TTL = d.Int64()
	}
}

// VersionRequest is the body of delete and check.
type VersionRequest struct {
	Path    string
	Version int32 // -1: any
}

// Append implements [Record].
func (r *VersionRequest) Append(b []byte) []byte {
	return AppendInt32(AppendString(b, r.Path), r.Version)
}

// Decode implements [Record].
func (r *VersionRequest) Decode(d *Decoder) { r.Path, r.Version = d.String(), d.Int32() }

// SetDataRequest is the body of setData.
type SetDataRequest struct {
	Path    string
	Data    []byte
	Version int32
}

// Append implements [Record].
func (r *SetDataRequest) Append(b []byte) []byte {
	return AppendInt32(AppendBytes(AppendString(b, r.Path), r.Data), r.Version)
}

// Decode implements [Record].
func (r *SetDataRequest) Decode(d *Decoder) {
	r.Path, r.Data, r.Version = d.String(), d.Bytes(), d.Int32()
}

// SetACLRequest is the body of setACL.
type SetACLRequest struct {
	Path    string
	ACL     []ACL
	Version int32
}

// Append implements [Record].
func (r *SetACLRequest) Append(b []byte) []byte {
	return AppendInt32(AppendACLs(AppendString(b, r.Path), r.ACL), r.Version)
}

// Decode implements [Record].
func (r *SetACLRequest) Decode(d *Decoder) {
	r.Path, r.ACL, r.Version = d.String(), d.ACLs(), d.Int32()
}

// AuthRequest presents credentials.
type AuthRequest struct {
	Type   int32 // 0
	Scheme string
	Cred   []byte
}

// Append implements [Record].
func (r *AuthRequest) Append(b []byte) []byte {
	return AppendBytes(AppendString(AppendInt32(b, r.Type), r.Scheme), r.Cred)
}

// Decode implements [Record].
func (r *AuthRequest) Decode(d *Decoder) { r.Type, r.Scheme, r.Cred = d.Int32(), d.String(), d.Bytes() }

// SASLToken is a step of a SASL exchange, in either direction.
type SASLToken struct{ Token []byte }

// Append implements [Record].
func (r *SASLToken) Append(b []byte) []byte { return AppendBytes(b, r.Token) }

// Decode implements [Record].
func (r *SASLToken) Decode(d *Decoder) { r.Token = d.Bytes() }

// SetWatchesRequest is the body of setWatches and, with Persistent, setWatches2.
type SetWatchesRequest struct {
	Zxid                  int64 // the last transaction that the client has seen
	Data, Exist, Child    []string
	WithPersistent        bool // must be set before Decode as well: it is not part of the body
	Persistent, Recursive []string
}

// Append implements [Record].
func (r *SetWatchesRequest) Append(b []byte) []byte {
	b = AppendStrings(AppendStrings(AppendStrings(AppendInt64(b, r.Zxid), r.Data), r.Exist), r.Child)
	if r.WithPersistent {
		b = AppendStrings(AppendStrings(b, r.Persistent), r.Recursive)
	}
	return b
}

// Decode implements [Record].
func (r *SetWatchesRequest) Decode(d *Decoder) {
	r.Zxid, r.Data, r.Exist, r.Child = d.Int64(), d.Strings(), d.Strings(), d.Strings()
	if r.WithPersistent {
		r.Persistent, r.Recursive = d.Strings(), d.Strings()
	}
}

// WatchRequest is the body of addWatch, where Kind is a mode, and of removeWatches and
// checkWatches, where Kind is a kind of watches.
type WatchRequest struct {
	Path string
	Kind int32
}

// Append implements [Record].
func (r *WatchRequest) Append(b []byte) []byte { return AppendInt32(AppendString(b, r.Path), r.Kind) }

// Decode implements [Record].
func (r *WatchRequest) Decode(d *Decoder) { r.Path, r.Kind = d.String(), d.Int32() }

// ReconfigRequest changes the members of the ensemble: step by step with Joining and Leaving, or
// all at once with Members.
type ReconfigRequest struct {
	Joining, Leaving, Members []byte // nil: none
	Config                    int64  // the version that it must have; -1: any
}

// Append implements [Record].
func (r *ReconfigRequest) Append(b []byte) []byte {
	return AppendInt64(AppendBytes(AppendBytes(AppendBytes(b, r.Joining), r.Leaving), r.Members), r.Config)
}

// Decode implements [Record].
func (r *ReconfigRequest) Decode(d *Decoder) {
	r.Joining, r.Leaving, r.Members, r.Config = d.Bytes(), d.Bytes(), d.Bytes(), d.Int64()
}
