package zktest

// outcome is what became of one operation of a multi.
type outcome struct {
	kind Op // what its result is called
	code code
	body []byte
}

// multi carries all operations or none. Its own code is always ok, unless it cannot be
// understood; that of the operation which failed is among the results.
func (x *txn) multi(r *reader, w *writer) code {
	var outcomes []outcome
	failed := -1
	for {
		op, done := Op(r.int32()), r.bool()
		r.int32()
		if r.err != nil {
			return errMarshalling
		}
		if done {
			break
		}
		o := x.multiPart(op, r)
		if r.err != nil || o.code == errMarshalling && failed < 0 {
			return errMarshalling
		}
		if o.code != ok && failed < 0 {
			failed = len(outcomes)
		}
		outcomes = append(outcomes, o)
	}
	if failed >= 0 {
		x.rollback()
	}
	for i, o := range outcomes {
		switch {
		case failed < 0:
			w.result(o.kind, ok, o.body)
		case i < failed:
			w.failure(ok)
		case i == failed:
			w.failure(o.code)
		default:
			w.failure(errRuntimeInconsistency)
		}
	}
	w.results()
	return ok
}

// multiPart is one operation of a multi.
func (x *txn) multiPart(op Op, r *reader) outcome {
	var body writer
	switch op {
	case OpDelete, OpSetData, OpCheck:
		code := x.operation(op, r, &body)
		return outcome{op, code, body.buf}
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		m := r.creation(op)
		if m.mode.ttl() && op != OpCreateTTL {
			// Real servers trip over it when its turn comes, which it does not
			// after a failure.
			return outcome{code: errMarshalling}
		}
		// Alone the kind of the request decides what is made; here it is the mode.
		kind, called := OpCreate, OpCreate
		switch {
		case m.mode == ModeContainer:
			kind, called = OpCreateContainer, OpCreate2
		case m.mode.ttl():
			kind, called = OpCreateTTL, OpCreate2
		}
		if kind != OpCreateTTL {
			m.ttl = -1
		}
		code := x.createKind(kind, m, &body)
		return outcome{called, code, body.buf}
	}
	r.err = errMalformed
	return outcome{}
}

// result is one of several: its header, and what follows.
func (w *writer) result(op Op, code code, body []byte) {
	w.int32(int32(op))
	w.bool(false)
	w.int32(int32(code))
	w.buf = append(w.buf, body...)
}

// failure is the result of an operation that was not carried out.
func (w *writer) failure(code code) {
	var body writer
	body.int32(int32(code))
	w.result(opError, code, body.buf)
}

// results ends a list of results.
func (w *writer) results() {
	w.int32(-1)
	w.bool(true)
	w.int32(-1)
}
