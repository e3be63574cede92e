package proto

// PathResponse answers create and sync.
type PathResponse struct{ Path string }

// Append implements [Record].
func (r *PathResponse) Append(b []byte) []byte { return AppendString(b, r.Path) }

// Decode implements [Record].
func (r *PathResponse) Decode(d *Decoder) { r.Path = d.String() }

// CreateResponse answers create2, createContainer and createTTL.
type CreateResponse struct {
	Path string
	Stat Stat
}

// Append implements [Record].
func (r *CreateResponse) Append(b []byte) []byte { return r.Stat.Append(AppendString(b, r.Path)) }

// Decode implements [Record].
func (r *CreateResponse) Decode(d *Decoder) {
	r.Path = d.String()
	r.Stat.Decode(d)
}

// StatResponse answers exists, setData and setACL.
type StatResponse struct{ Stat Stat }

// Append implements [Record].
func (r *StatResponse) Append(b []byte) []byte { return r.Stat.Append(b) }

// Decode implements [Record].
func (r *StatResponse) Decode(d *Decoder) { r.Stat.Decode(d) }

// DataResponse answers getData.
type DataResponse struct {
	Data []byte
	Stat Stat
}

// Append implements [Record].
func (r *DataResponse) Append(b []byte) []byte { return r.Stat.Append(AppendBytes(b, r.Data)) }

// Decode implements [Record].
func (r *DataResponse) Decode(d *Decoder) {
	r.Data = d.Bytes()
	r.Stat.Decode(d)
}

// ACLResponse answers getACL.
type ACLResponse struct {
	ACL  []ACL
	Stat Stat
}

// Append implements [Record].
func (r *ACLResponse) Append(b []byte) []byte { return r.Stat.Append(AppendACLs(b, r.ACL)) }

// Decode implements [Record].
func (r *ACLResponse) Decode(d *Decoder) {
	r.ACL = d.ACLs()
	r.Stat.Decode(d)
}

// NamesResponse answers getChildren and getEphemerals.
type NamesResponse struct{ Names []string }

// Append implements [Record].
func (r *NamesResponse) Append(b []byte) []byte { return AppendStrings(b, r.Names) }

// Decode implements [Record].
func (r *NamesResponse) Decode(d *Decoder) { r.Names = d.Strings() }

// ChildrenResponse answers getChildren2.
type ChildrenResponse struct {
	Names []string
	Stat  Stat
}

// Append implements [Record].
func (r *ChildrenResponse) Append(b []byte) []byte { return r.Stat.Append(AppendStrings(b, r.Names)) }

// Decode implements [Record].
func (r *ChildrenResponse) Decode(d *Decoder) {
	r.Names = d.Strings()
	r.Stat.Decode(d)
}

// NumberResponse answers getAllChildrenNumber.
type NumberResponse struct{ Number int32 }

// Append implements [Record].
func (r *NumberResponse) Append(b []byte) []byte { return AppendInt32(b, r.Number) }

// Decode implements [Record].
func (r *NumberResponse) Decode(d *Decoder) { r.Number = d.Int32() }

// ErrorResponse answers addWatch, with OK.
type ErrorResponse struct{ Code Code }

// Append implements [Record].
func (r *ErrorResponse) Append(b []byte) []byte { return AppendInt32(b, int32(r.Code)) }

// Decode implements [Record].
func (r *ErrorResponse) Decode(d *Decoder) { r.Code = Code(d.Int32()) }

// WhoAmIResponse answers whoAmI.
type WhoAmIResponse struct{ Identities []Identity }

// Identity is one identity of a client.
type Identity struct{ Scheme, User string }

// Append implements [Record].
func (r *WhoAmIResponse) Append(b []byte) []byte {
	b = AppendInt32(b, int32(len(r.Identities)))
	for _, i := range r.Identities {
		b = AppendString(AppendString(b, i.Scheme), i.User)
	}
	return b
}

// Decode implements [Record].
func (r *WhoAmIResponse) Decode(d *Decoder) {
	r.Identities = nil
	for range d.count(8) {
		r.Identities = append(r.Identities, Identity{d.String(), d.String()})
		if d.err != nil {
			return
		}
	}
}
