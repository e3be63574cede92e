package framework

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// peer is a server that has said all it will ever say.
type peer struct {
	io.Reader
	heard bytes.Buffer
}

func (p *peer) Write(b []byte) (int, error) { return p.heard.Write(b) }

func says(b []byte) *peer { return &peer{Reader: bytes.NewReader(b)} }

func TestHandshakeAsksForTheSessionAndTakesTheGrant(t *testing.T) {
	want := grant{id: 7, timeout: 4 * time.Second, password: []byte("0123456789abcdef")}
	server := says(connectReply(want))
	got, err := handshake(server, grant{id: 7, timeout: 10 * time.Second, password: want.password}, 99)
	require.NoError(t, err)
	require.Equal(t, want, got)
	sent := server.heard.Bytes()
	require.Len(t, sent, 4+44)
	assert.EqualValues(t, 44, binary.BigEndian.Uint32(sent))
	assert.EqualValues(t, 99, binary.BigEndian.Uint64(sent[8:]), "last zxid")
	assert.EqualValues(t, 10000, binary.BigEndian.Uint32(sent[16:]), "timeout")
	assert.EqualValues(t, 7, binary.BigEndian.Uint64(sent[20:]), "session")
	assert.Equal(t, want.password, sent[32:])
}

func TestHandshakeWithABrokenServerIsAnError(t *testing.T) {
	good := connectReply(grant{id: 7, timeout: time.Second, password: make([]byte, 16)})
	for n := range len(good) {
		_, err := handshake(says(good[:n]), grant{}, 0)
		require.Error(t, err, "cut after %d bytes", n)
	}
	for name, reply := range map[string][]byte{
		"empty frame":       {0, 0, 0, 0},
		"short frame":       {0, 0, 0, 4, 1, 2, 3, 4},
		"endless frame":     {0xff, 0xff, 0xff, 0xff},
		"HTTP":              []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"endless password":  sealed(append(append([]byte{}, good[:20]...), 0x7f, 0xff, 0xff, 0xff)),
		"negative password": sealed(append(append([]byte{}, good[:20]...), 0xff, 0xff, 0xff, 0xff)),
	} {
		_, err := handshake(says(reply), grant{}, 0)
		require.Error(t, err, name)
	}
}

// FuzzServer has a server say anything at all in the handshake, in reply to credentials and later.
func FuzzServer(f *testing.F) {
	greeting := connectReply(grant{id: 7, timeout: time.Second, password: make([]byte, 16)})
	reply := sealed(append(make([]byte, 20), "data"...))
	f.Add([]byte{})
	f.Add(greeting)
	f.Add(append(append(append([]byte{}, greeting...), reply...), reply...))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, said []byte) {
		if len(said) >= 4 && binary.BigEndian.Uint32(said) > 1<<16 {
			return // memory, not a bug
		}
		server := says(said)
		g, err := handshake(server, grant{}, 0)
		if err == nil && len(g.password) > len(said) {
			t.Fatal("a password from nowhere")
		}
		if err := authenticate(server, []auth{{"digest", []byte("u:p")}}); err != nil && errors.Is(err, io.EOF) {
			return
		}
		w := &wire{in: nil, answered: func(answer) {}, down: make(chan struct{})}
		w.noteReply(said)
		requestHeader(said)
	})
}

func TestRefusedCredentials(t *testing.T) {
	reply := header(xidAuth, 0)
	reply = append(reply, 0, 0, 0, 0)                    // the rest of the zxid
	reply = binary.BigEndian.AppendUint32(reply, 0xff8d) // not zero
	for name, said := range map[string][]byte{"an error": sealed(reply), "a short reply": {0, 0, 0, 1, 0}} {
		err := authenticate(says(said), []auth{{"digest", []byte("u:p")}})
		require.ErrorIs(t, err, zk.ErrAuthFailed, name)
	}
	err := authenticate(says(nil), []auth{{"digest", nil}})
	require.ErrorIs(t, err, io.EOF, "hanging up is no refusal")
	require.NotErrorIs(t, err, zk.ErrAuthFailed)
}

func TestReplyIsCountedFromWhenItsRequestWasSent(t *testing.T) {
	mine, theirs := net.Pipe()
	defer theirs.Close()
	var answers []answer
	w := newWire(mine, nil, grant{}, func(a answer) { answers = append(answers, a) })
	defer w.Close()
	go io.Copy(io.Discard, theirs)              //nolint:errcheck // ends with the pipe
	_, err := w.Write(sealed(make([]byte, 48))) // the greeting, answered here
	require.NoError(t, err)
	before := time.Now()
	for xid, op := range map[int32]int32{1: opSync, xidPing: 11} {
		_, err = w.Write(sealed(header(xid, op)))
		require.NoError(t, err)
	}
	after := time.Now()
	reply := func(xid int32, zxid uint64) []byte {
		frame := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(xid))
		frame = binary.BigEndian.AppendUint64(frame, zxid)
		return sealed(binary.BigEndian.AppendUint32(frame, 0))
	}
	w.noteReply(reply(xidPing, 0)) // overtakes the other
	w.noteReply(reply(xidPing, 0)) // nobody has asked
	w.noteReply(reply(1, 5))
	w.noteReply(reply(xidWatchEvent, 6))
	require.Len(t, answers, 2)
	assert.False(t, answers[0].viaLeader)
	assert.True(t, answers[1].viaLeader)
	assert.EqualValues(t, 5, answers[1].zxid)
	for _, a := range answers {
		assert.False(t, a.sent.Before(before) || a.sent.After(after))
		assert.False(t, a.received.Before(a.sent))
	}
}

func TestWatchesThatWereNotSetAreNotKept(t *testing.T) { // CUR-CLI-61, -62
	var ws watches
	key := watchKey{"/a", watchData}
	first, armed := ws.begin(key)
	require.False(t, armed)
	second, armed := ws.begin(key)
	require.False(t, armed, "not before the server has it")
	require.Same(t, first, second)
	ws.settle(key, first, false)
	require.Len(t, ws.byNode, 1, "another call is about to set it")
	ws.settle(key, second, false)
	require.Empty(t, ws.byNode)

	third, _ := ws.begin(key)
	require.NotSame(t, first, third)
	ws.settle(key, third, true)
	_, armed = ws.begin(key)
	require.True(t, armed)
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/b"})
	require.Len(t, ws.byNode, 1, "somebody else's")
	ws.notify(zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"})
	<-third.done
	require.Empty(t, ws.byNode)
}

// TestEventBetweenTheReplyAndItsNews has the event come before the call knows that it has
// set the watch: go-zookeeper's loop may be that much faster.
func TestEventBetweenTheReplyAndItsNews(t *testing.T) { // CURATOR-527, -641
	var ws watches
	key := watchKey{"/a", watchChildren}
	w, _ := ws.begin(key)
	ws.notify(zk.Event{Type: zk.EventNodeDeleted, Path: "/a"})
	<-w.done
	ws.settle(key, w, true)
	require.Empty(t, ws.byNode)
	next, armed := ws.begin(key)
	require.False(t, armed, "a new one has to be set")
	ws.end()
	<-next.done
	require.Equal(t, zk.EventNotWatching, next.event.Type)
	ws.settle(key, next, false)
	late, _ := ws.begin(key)
	<-late.done
}

func TestEachEventEndsTheWatchesThatItConcerns(t *testing.T) {
	for event, ends := range map[zk.EventType][]watchKind{
		zk.EventNodeCreated:         {watchGone},
		zk.EventNodeDataChanged:     {watchData},
		zk.EventNodeChildrenChanged: {watchChildren},
		zk.EventNodeDeleted:         {watchData, watchChildren},
		zk.EventNotWatching:         nil, // end does that
	} {
		for _, kind := range []watchKind{watchData, watchGone, watchChildren} {
			if kind == watchGone && event != zk.EventNodeCreated {
				continue // cannot be: the node is not there
			}
			var ws watches
			key := watchKey{"/a", kind}
			w, _ := ws.begin(key)
			ws.settle(key, w, true)
			ws.notify(zk.Event{Type: event, Path: "/a"})
			ended := false
			select {
			case <-w.done:
				ended = true
			default:
			}
			concerns := false
			for _, k := range ends {
				concerns = concerns || k == kind
			}
			assert.Equal(t, concerns, ended, "%v, kind %d", event, kind)
		}
	}
}
