package proto

// MultiOp is one operation of a multi (create, create2, createContainer, createTTL, delete,
// setData, check) or of a multiRead (getData, getChildren).
type MultiOp struct {
	Op   Op
	Body Record
}

// MultiRequest is the body of multi and multiRead.
type MultiRequest struct{ Ops []MultiOp }

// appendMultiHeader appends the header of an operation or a result; the last header has done set.
func appendMultiHeader(b []byte, op Op, done bool, code Code) []byte {
	return AppendInt32(AppendBool(AppendInt32(b, int32(op)), done), int32(code))
}

// Append implements [Record].
func (r *MultiRequest) Append(b []byte) []byte {
	for _, o := range r.Ops {
		b = o.Body.Append(appendMultiHeader(b, o.Op, false, -1))
	}
	return appendMultiHeader(b, OpError, true, -1)
}

// Decode implements [Record]. An operation that cannot be in a multi is an error. The last of Ops
// is then the faulty one; it has no Body if its kind is the error.
func (r *MultiRequest) Decode(d *Decoder) {
	r.Ops = nil
	for {
		op, done := Op(d.Int32()), d.Bool()
		d.Int32()
		if done || d.err != nil {
			return
		}
		body := multiBody(op)
		if body == nil {
			d.fail("multi operation", int(op))
		} else {
			body.Decode(d)
		}
		r.Ops = append(r.Ops, MultiOp{op, body})
	}
}

func multiBody(op Op) Record {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck, OpGetData, OpGetChildren:
		return NewRequest(op)
	}
	return nil
}

// MultiResult is the outcome of one operation. Which fields are set depends on Op.
type MultiResult struct {
	Op    Op     // the request's, or OpError
	Code  Code   // the code of an OpError
	Path  string // set for create and create2
	Stat  Stat   // set for create2, setData and getData
	Data  []byte // set for getData
	Names []string
}

// MultiResponse answers multi and multiRead.
type MultiResponse struct{ Results []MultiResult }

// Append implements [Record].
func (r *MultiResponse) Append(b []byte) []byte {
	for i := range r.Results {
		b = r.Results[i].append(b)
	}
	return appendMultiHeader(b, OpError, true, -1)
}

func (r *MultiResult) append(b []byte) []byte {
	if r.Op == OpError {
		return AppendInt32(appendMultiHeader(b, OpError, false, r.Code), int32(r.Code))
	}
	b = appendMultiHeader(b, r.Op, false, OK)
	switch r.Op {
	case OpCreate:
		b = AppendString(b, r.Path)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		b = r.Stat.Append(AppendString(b, r.Path))
	case OpSetData:
		b = r.Stat.Append(b)
	case OpGetData:
		b = r.Stat.Append(AppendBytes(b, r.Data))
	case OpGetChildren:
		b = AppendStrings(b, r.Names)
	}
	return b
}

// Decode implements [Record]. A result of an unknown kind is an error.
func (r *MultiResponse) Decode(d *Decoder) {
	r.Results = nil
	for {
		op, done := Op(d.Int32()), d.Bool()
		d.Int32()
		if done || d.err != nil {
			return
		}
		result := MultiResult{Op: op}
		result.decode(d)
		if d.err != nil {
			return
		}
		r.Results = append(r.Results, result)
	}
}

func (r *MultiResult) decode(d *Decoder) {
	switch r.Op {
	case OpError:
		r.Code = Code(d.Int32())
	case OpCreate:
		r.Path = d.String()
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		r.Path = d.String()
		r.Stat.Decode(d)
	case OpSetData:
		r.Stat.Decode(d)
	case OpGetData:
		r.Data = d.Bytes()
		r.Stat.Decode(d)
	case OpGetChildren:
		r.Names = d.Strings()
	case OpDelete, OpCheck:
	default:
		d.fail("multi result", int(r.Op))
	}
}

// MultiCode returns the code of a reply to a multi whose results d is about to read. ZooKeeper
// answers a multi with OK even if the leader has refused the session: then SessionExpired,
// UnknownSession or SessionMoved is among the results, which are all of kind OpError. d is not
// changed.
func MultiCode(d Decoder) Code {
	for Op(d.Int32()) == OpError && !d.Bool() {
		d.Int32() // the code, repeated
		switch code := Code(d.Int32()); code {
		case SessionExpired, UnknownSession, SessionMoved:
			return code
		}
	}
	return OK
}
