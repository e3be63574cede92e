package proto

// Record is a message or a part of a message.
type Record interface {
	// Append appends the record to b and returns the result.
	Append(b []byte) []byte
	// Decode reads the record. d.Err reports whether it was complete.
	Decode(d *Decoder)
}

// ACL grants rights on a node to an identity.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// Stat describes a node.
type Stat struct {
	Czxid          int64 // the transaction that created the node
	Mzxid          int64 // the last transaction that changed its data
	Ctime          int64 // milliseconds since 1970
	Mtime          int64
	Version        int32 // version of the data
	Cversion       int32 // version of the list of children
	Aversion       int32 // version of the ACL
	EphemeralOwner int64 // session, or 0
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // the last transaction that changed the list of children
}

// Append implements [Record].
func (s *Stat) Append(b []byte) []byte {
	b = AppendInt64(AppendInt64(AppendInt64(AppendInt64(b, s.Czxid), s.Mzxid), s.Ctime), s.Mtime)
	b = AppendInt32(AppendInt32(AppendInt32(b, s.Version), s.Cversion), s.Aversion)
	b = AppendInt32(AppendInt32(AppendInt64(b, s.EphemeralOwner), s.DataLength), s.NumChildren)
	return AppendInt64(b, s.Pzxid)
}

// Decode implements [Record].
func (s *Stat) Decode(d *Decoder) {
	s.Czxid, s.Mzxid, s.Ctime, s.Mtime = d.Int64(), d.Int64(), d.Int64(), d.Int64()
	s.Version, s.Cversion, s.Aversion = d.Int32(), d.Int32(), d.Int32()
	s.EphemeralOwner, s.DataLength, s.NumChildren = d.Int64(), d.Int32(), d.Int32()
	s.Pzxid = d.Int64()
}

// ConnectRequest is the client's part of the handshake.
type ConnectRequest struct {
	Version     int32
	LastZxid    int64 // the last transaction that the client has seen
	Timeout     int32 // milliseconds
	Session     int64 // 0: a new one
	Password    []byte
	ReadOnly    bool
	HasReadOnly bool // ReadOnly is present; very old clients do not send it
}

// Append implements [Record].
func (r *ConnectRequest) Append(b []byte) []byte {
	b = AppendInt64(AppendInt32(AppendInt64(AppendInt32(b, r.Version), r.LastZxid), r.Timeout), r.Session)
	b = AppendBytes(b, r.Password)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// Decode implements [Record].
func (r *ConnectRequest) Decode(d *Decoder) {
	r.Version, r.LastZxid, r.Timeout, r.Session = d.Int32(), d.Int64(), d.Int32(), d.Int64()
	r.Password = d.Bytes()
	if r.HasReadOnly = d.Len() > 0; r.HasReadOnly {
		r.ReadOnly = d.Bool()
	}
}

// ConnectResponse is the server's part of the handshake.
type ConnectResponse struct {
	Version     int32
	Timeout     int32 // milliseconds; not positive if the session has expired
	Session     int64 // 0 if the session has expired
	Password    []byte
	ReadOnly    bool // the server answers reads only
	HasReadOnly bool // ReadOnly is present
}

// Append implements [Record].
func (r *ConnectResponse) Append(b []byte) []byte {
	b = AppendInt64(AppendInt32(AppendInt32(b, r.Version), r.Timeout), r.Session)
	b = AppendBytes(b, r.Password)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// Decode implements [Record].
func (r *ConnectResponse) Decode(d *Decoder) {
	r.Version, r.Timeout, r.Session = d.Int32(), d.Int32(), d.Int64()
	r.Password = d.Bytes()
	if r.HasReadOnly = d.Len() > 0; r.HasReadOnly {
		r.ReadOnly = d.Bool()
	}
}

// RequestHeader precedes each request but the handshake.
type RequestHeader struct {
	Xid int32
	Op  Op
}

// Append implements [Record].
func (h *RequestHeader) Append(b []byte) []byte {
	return AppendInt32(AppendInt32(b, h.Xid), int32(h.Op))
}

// Decode implements [Record].
func (h *RequestHeader) Decode(d *Decoder) { h.Xid, h.Op = d.Int32(), Op(d.Int32()) }

// ReplyHeader precedes each reply and each event. If Code is not OK, no body follows. The Code of a
// failed multi is OK, and its results say which operation failed.
type ReplyHeader struct {
	Xid  int32
	Zxid int64 // the server's last transaction; of an event -1, and from 3.9 on its transaction
	Code Code
}

// Append implements [Record].
func (h *ReplyHeader) Append(b []byte) []byte {
	return AppendInt32(AppendInt64(AppendInt32(b, h.Xid), h.Zxid), int32(h.Code))
}

// Decode implements [Record].
func (h *ReplyHeader) Decode(d *Decoder) {
	h.Xid, h.Zxid, h.Code = d.Int32(), d.Int64(), Code(d.Int32())
}

// WatcherEvent is one event of a watch.
type WatcherEvent struct {
	Type  int32 // EventCreated and so on
	State int32 // StateConnected
	Path  string
}

// Append implements [Record].
func (e *WatcherEvent) Append(b []byte) []byte {
	return AppendString(AppendInt32(AppendInt32(b, e.Type), e.State), e.Path)
}

// Decode implements [Record].
func (e *WatcherEvent) Decode(d *Decoder) { e.Type, e.State, e.Path = d.Int32(), d.Int32(), d.String() }
