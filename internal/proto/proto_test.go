package proto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var stat = Stat{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}

// records returns a record of each kind with a value in every field.
func records() []Record {
	acl := []ACL{{31, "world", "anyone"}, {1, "digest", "u:p"}}
	return []Record{
		&stat,
		&ConnectRequest{1, 2, 3, -4, []byte("0123456789abcdef"), true, true},
		&ConnectRequest{Password: []byte{}},
		&ConnectResponse{1, 2, -3, []byte("0123456789abcdef"), true, true},
		&ConnectResponse{Session: 7},
		&RequestHeader{7, OpGetACL},
		&ReplyHeader{7, 1 << 40, NodeExists},
		&WatcherEvent{4, 3, "/a"},
		&PathRequest{"/a"},
		&ReadRequest{"/a", true},
		&CreateRequest{Path: "/a", Data: []byte("x"), ACL: acl, Flags: 3},
		&CreateRequest{Path: "/a", ACL: acl, Flags: 5, WithTTL: true, TTL: 1 << 33},
		&VersionRequest{"/a", -1},
		&SetDataRequest{"/a", []byte{}, 2},
		&SetACLRequest{"/a", acl, 2},
		&AuthRequest{0, "digest", []byte("u:p")},
		&SASLToken{[]byte("x")},
		&SetWatchesRequest{Zxid: 9, Data: []string{"/a"}, Exist: []string{"/b", "/c"}, Child: []string{}},
		&SetWatchesRequest{9, []string{"/a"}, []string{}, []string{}, true, []string{"/p"}, []string{"/q", "/r"}},
		&WatchRequest{"/a", WatchRecursive},
		&ReconfigRequest{[]byte("server.4=x"), nil, nil, -1},
		&PathResponse{"/a"},
		&CreateResponse{"/a", stat},
		&StatResponse{stat},
		&DataResponse{nil, stat},
		&DataResponse{[]byte("x"), stat},
		&ACLResponse{acl, stat},
		&NamesResponse{[]string{"a", "", "bcd"}},
		&ChildrenResponse{[]string{"a"}, stat},
		&NumberResponse{42},
		&WhoAmIResponse{[]Identity{{"ip", "127.0.0.1"}, {"digest", "u"}}},
		&MultiRequest{[]MultiOp{
			{OpCreate, &CreateRequest{Path: "/a", Data: []byte("x"), ACL: acl}},
			{OpCreateTTL, &CreateRequest{Path: "/t", ACL: acl, Flags: 5, WithTTL: true, TTL: 9}},
			{OpDelete, &VersionRequest{"/a", 1}},
			{OpSetData, &SetDataRequest{"/a", nil, 1}},
			{OpCheck, &VersionRequest{"/a", 1}},
		}},
		&MultiRequest{[]MultiOp{{OpGetData, &ReadRequest{"/a", false}}}},
		&MultiResponse{[]MultiResult{
			{Op: OpCreate, Path: "/a"}, {Op: OpCreate2, Path: "/b", Stat: stat}, {Op: OpSetData, Stat: stat},
			{Op: OpDelete}, {Op: OpCheck}, {Op: OpError, Code: NoNode}, {Op: OpError},
			{Op: OpGetData, Data: []byte("x"), Stat: stat}, {Op: OpGetChildren, Names: []string{"a"}},
		}},
		&ErrorResponse{NoAuth},
	}
}

// TestEveryRecordIsTried keeps the list above complete.
func TestEveryRecordIsTried(t *testing.T) {
	tried := make(map[string]bool)
	for _, r := range records() {
		tried[reflect.TypeOf(r).Elem().Name()] = true
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, decodes := range regexp.MustCompile(`(?m)^func \(\w+ \*(\w+)\) Decode\(`).FindAllSubmatch(source, -1) {
			assert.True(t, tried[string(decodes[1])], "%s", decodes[1])
		}
	}
}

// TestBodiesOfRequests has each operation of the protocol name its body, or say that it has none.
func TestBodiesOfRequests(t *testing.T) {
	kinds := make(map[string][]Op)
	for op := range opNames {
		kind := "none"
		if body := NewRequest(op); body != nil {
			kind = reflect.TypeOf(body).Elem().Name()
		}
		kinds[kind] = append(kinds[kind], op)
	}
	for kind, want := range map[string][]Op{
		"none":              {OpPing, OpDeleteContainer, OpWhoAmI, OpConnect, OpCloseSession, OpError},
		"PathRequest":       {OpGetACL, OpSync, OpGetEphemerals, OpGetChildrenNumber},
		"ReadRequest":       {OpExists, OpGetData, OpGetChildren, OpGetChildren2},
		"CreateRequest":     {OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL},
		"VersionRequest":    {OpDelete, OpCheck},
		"SetDataRequest":    {OpSetData},
		"SetACLRequest":     {OpSetACL},
		"MultiRequest":      {OpMulti, OpMultiRead},
		"ReconfigRequest":   {OpReconfig},
		"WatchRequest":      {OpCheckWatches, OpRemoveWatches, OpAddWatch},
		"AuthRequest":       {OpAuth},
		"SASLToken":         {OpSASL},
		"SetWatchesRequest": {OpSetWatches, OpSetWatches2},
	} {
		assert.ElementsMatch(t, want, kinds[kind], kind)
		delete(kinds, kind)
	}
	assert.Empty(t, kinds)
	assert.True(t, NewRequest(OpCreateTTL).(*CreateRequest).WithTTL)
	assert.True(t, NewRequest(OpSetWatches2).(*SetWatchesRequest).WithPersistent)
	assert.Nil(t, NewRequest(77))
}

// like returns an empty record of the same kind.
func like(r Record) Record {
	fresh := reflect.New(reflect.TypeOf(r).Elem()).Interface().(Record)
	switch r := r.(type) {
	case *CreateRequest:
		fresh.(*CreateRequest).WithTTL = r.WithTTL
	case *SetWatchesRequest:
		fresh.(*SetWatchesRequest).WithPersistent = r.WithPersistent
	}
	return fresh
}

func TestWhatIsAppendedIsDecoded(t *testing.T) {
	for _, r := range records() {
		b := r.Append([]byte("before"))
		require.Equal(t, "before", string(b[:6]))
		d := NewDecoder(b[6:])
		got := like(r)
		got.Decode(&d)
		require.NoError(t, d.Err(), "%#v", r)
		require.Zero(t, d.Len(), "%#v", r)
		require.Equal(t, r, got)
	}
}

func TestARecordThatEndsTooEarlyIsAnError(t *testing.T) {
	for _, r := range records() {
		b := r.Append(nil)
		for n := range len(b) {
			d := NewDecoder(b[:n])
			like(r).Decode(&d)
			switch r.(type) {
			case *ConnectRequest, *ConnectResponse:
				if n == len(b)-1 {
					continue // the last byte is optional
				}
			}
			require.ErrorIs(t, d.Err(), ErrMalformed, "%T cut to %d of %d bytes", r, n, len(b))
		}
	}
}

// TestTheLayoutIsZooKeepers compares with bytes that were seen on the wire, because a mistake that
// both sides share would be invisible.
func TestTheLayoutIsZooKeepers(t *testing.T) {
	for want, r := range map[string]Record{
		"0000000000000000000000000000271000000000000000000000001000000000000000000000000000000000": &ConnectRequest{Timeout: 10000, Password: make([]byte, 16)},
		"000000022f61ffffffff000000010000001f00000005776f726c6400000006616e796f6e6500000003":       &CreateRequest{Path: "/a", ACL: []ACL{{31, "world", "anyone"}}, Flags: 3},
		"0000000d00ffffffff000000022f6100000001ffffffff01ffffffff":                                 &MultiRequest{[]MultiOp{{OpCheck, &VersionRequest{"/a", 1}}}},
		"ffffffff00ffffff9bffffff9bffffffff01ffffffff":                                             &MultiResponse{[]MultiResult{{Op: OpError, Code: NoNode}}},
		"00000004000000030000000" + "22f61":                                                        &WatcherEvent{4, 3, "/a"},
	} {
		assert.Equal(t, want, fmt.Sprintf("%x", r.Append(nil)))
	}
}

// TestCountsAreNotBelieved has a short record claim a long list. Memory is what would be missed.
func TestCountsAreNotBelieved(t *testing.T) {
	for _, count := range []uint32{1 << 30, 1<<31 - 1, 1 << 31, 1<<32 - 2, 9} {
		lie := binary.BigEndian.AppendUint32(nil, count)
		lie = append(lie, make([]byte, 8)...)
		for _, r := range []Record{
			new(NamesResponse), new(ACLResponse), new(ChildrenResponse), new(WhoAmIResponse), new(DataResponse), new(PathResponse),
		} {
			d := NewDecoder(lie)
			require.Less(t, allocated(func() { r.Decode(&d) }), 1<<20, "%T claims %d", r, count)
			require.ErrorIs(t, d.Err(), ErrMalformed, "%T claims %d", r, count)
		}
	}
	server := NewServerDecoder([]byte{0xff, 0xff, 0xff, 0xfe})
	require.Equal(t, []string{}, server.Strings(), "a server takes a negative length for an empty list")
	require.NoError(t, server.Err())
	none := NewDecoder([]byte{0xff, 0xff, 0xff, 0xff})
	require.Nil(t, none.Strings())
	require.NoError(t, none.Err(), "none is no error")
}

func TestAfterAnErrorEverythingIsZero(t *testing.T) {
	d := NewDecoder([]byte{0, 0, 0, 9, 1, 1, 1, 1})
	require.Empty(t, d.String())
	require.Zero(t, d.Int32())
	require.False(t, d.Bool())
	require.Nil(t, d.Bytes())
	require.Nil(t, d.ACLs())
	require.Zero(t, d.Len())
	require.ErrorIs(t, d.Err(), ErrMalformed)
}

func TestWhatIsDecodedIsACopy(t *testing.T) {
	b := (&DataResponse{Data: []byte("data")}).Append(nil)
	var r DataResponse
	d := NewDecoder(b)
	r.Decode(&d)
	clear(b)
	require.Equal(t, "data", string(r.Data))
}

func TestMultiCodeFindsARefusedSessionAmongTheResults(t *testing.T) {
	expired, other := MultiResult{Op: OpError, Code: SessionExpired}, MultiResult{Op: OpError, Code: RuntimeInconsistency}
	for _, c := range []struct {
		results []MultiResult
		want    Code
	}{
		{nil, OK},
		{[]MultiResult{{Op: OpCheck}, {Op: OpDelete}}, OK},
		{[]MultiResult{{Op: OpError, Code: NoNode}, other}, OK},
		{[]MultiResult{expired, other}, SessionExpired},
		{[]MultiResult{{Op: OpError, Code: OK}, expired}, SessionExpired},
		{[]MultiResult{{Op: OpError, Code: SessionMoved}, other}, SessionMoved},
		{[]MultiResult{{Op: OpError, Code: UnknownSession}, other}, UnknownSession},
	} {
		answer := (&MultiResponse{Results: c.results}).Append(nil)
		for cut := range answer {
			MultiCode(NewDecoder(answer[:cut])) // ends
		}
		d := NewDecoder(answer)
		require.Equal(t, c.want, MultiCode(d))
		var r MultiResponse
		r.Decode(&d)
		require.NoError(t, d.Err())
		require.Len(t, r.Results, len(c.results))
	}
}

func TestMultiRefusesWhatItDoesNotKnow(t *testing.T) {
	b := appendMultiHeader(nil, OpSync, false, -1)
	d := NewDecoder(b)
	var r MultiRequest
	r.Decode(&d)
	require.ErrorIs(t, d.Err(), ErrMalformed)
	require.Equal(t, []MultiOp{{Op: OpSync}}, r.Ops, "a server can see what it does not know")
	d = NewDecoder(b)
	new(MultiResponse).Decode(&d)
	require.ErrorIs(t, d.Err(), ErrMalformed)
}

func TestOnlyAnswersToWritesShowThatAMajorityHasCommitted(t *testing.T) {
	for _, code := range []Code{OK, NoNode, BadVersion, NodeExists, NotEmpty} {
		assert.True(t, code.Committed(OpCreate), code)
		assert.False(t, code.Committed(OpGetData), "any server answers a read")
		assert.False(t, code.Committed(OpPing))
		assert.False(t, code.Committed(OpSync), "a leader that was replaced answers a sync")
	}
	for _, code := range []Code{Throttled, NoAuth, InvalidACL, SessionMoved, BadArguments, -999} {
		assert.False(t, code.Committed(OpCreate), code)
	}
	assert.True(t, NoAuth.Committed(OpMulti), "only the leader looks whether the client may")
}

func TestFrames(t *testing.T) {
	small, empty := Seal(append(Begin(5), "hello"...)), Seal(Begin(0))
	large := Seal(append(Begin(0), bytes.Repeat([]byte("x"), 300<<10)...))
	var in []byte
	for _, f := range [][]byte{small, large, empty, small} {
		in = append(in, f...)
	}
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(in), "byte by byte": iotest.OneByteReader(bytes.NewReader(in)),
	} {
		frames := NewFrameReader(r, 1<<20)
		for _, want := range [][]byte{small, large, empty, small} {
			got, err := frames.Next()
			require.NoError(t, err, name)
			require.Equal(t, string(want[4:]), string(got), name)
		}
		_, err := frames.Next()
		require.Equal(t, io.EOF, err, "the end is between two frames")
	}
	for n := 1; n < len(small); n++ {
		_, err := NewFrameReader(bytes.NewReader(small[:n]), 1<<20).Next()
		require.Equal(t, io.ErrUnexpectedEOF, err, "cut after %d bytes", n)
	}
	_, err := NewFrameReader(bytes.NewReader(large[:1000]), 1<<20).Next()
	require.Equal(t, io.ErrUnexpectedEOF, err)
	broken := errors.New("broken")
	_, err = NewFrameReader(iotest.ErrReader(broken), 1<<20).Next()
	require.Equal(t, broken, err)
}

func TestALengthPrefixIsNotBelieved(t *testing.T) {
	for name, head := range map[string][]byte{
		"negative": {0xff, 0xff, 0xff, 0xff}, "smallest": {0x80, 0, 0, 0}, "too large": {0x10, 0, 0, 1}, "HTTP": []byte("HTTP/1.1"),
	} {
		_, err := NewFrameReader(bytes.NewReader(head), 256<<20).Next()
		require.ErrorIs(t, err, ErrFrameLength, name)
		_, err = ReadFrame(bytes.NewReader(head), 256<<20)
		require.ErrorIs(t, err, ErrFrameLength, name)
	}
	// 256 MB less one, of which 100 bytes come
	claim := append([]byte{0x0f, 0xff, 0xff, 0xff}, make([]byte, 100)...)
	require.Less(t, allocated(func() {
		_, err := NewFrameReader(bytes.NewReader(claim), 256<<20).Next()
		require.Equal(t, io.ErrUnexpectedEOF, err)
		_, err = ReadFrame(bytes.NewReader(claim), 256<<20)
		require.Equal(t, io.ErrUnexpectedEOF, err)
	}), 4<<20, "memory grows with what has arrived")
}

// FuzzDecode decodes any input with every record, and the result must survive a round trip.
func FuzzDecode(f *testing.F) {
	for i, r := range records() {
		f.Add(uint8(i), r.Append(nil))
	}
	f.Add(uint8(26), []byte{0x40, 0, 0, 0, 0, 0, 0, 0})
	kinds := records()
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		r := like(kinds[int(kind)%len(kinds)])
		d := NewDecoder(b)
		r.Decode(&d)
		if d.Err() != nil {
			if !errors.Is(d.Err(), ErrMalformed) {
				t.Fatal(d.Err())
			}
			return
		}
		again, d2 := like(r), NewDecoder(r.Append(nil))
		again.Decode(&d2)
		if d2.Err() != nil || !bytes.Equal(r.Append(nil), again.Append(nil)) {
			t.Fatalf("%#v became %#v", r, again)
		}
	})
}

// FuzzFrames reads frames from anything at all.
func FuzzFrames(f *testing.F) {
	f.Add(Seal(append(Begin(5), "hello"...)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, plain := NewFrameReader(bytes.NewReader(b), 1<<16), bytes.NewReader(b)
		for {
			got, err := frames.Next()
			want, err2 := ReadFrame(plain, 1<<16)
			if (err == nil) != (err2 == nil) || !bytes.Equal(got, want) {
				t.Fatalf("%q, %v against %q, %v", got, err, want, err2)
			}
			if err != nil {
				return
			}
		}
	})
}
