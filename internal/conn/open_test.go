package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
)

// serve plays the other end: it reads the request for a session, answers with a welcome, and goes
// on with rest, or hangs up if that is nil.
func serve(welcome []byte, rest func(far net.Conn)) (near net.Conn) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		_, _ = proto.ReadFrame(far, 1<<20)
		_, _ = far.Write(welcome)
		if rest != nil {
			rest(far)
		}
	}()
	return near
}

func TestTheHandshakeAsksForTheSessionAndTakesTheGrant(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	asked := make(chan proto.ConnectRequest, 1)
	go func() {
		f, _ := proto.ReadFrame(far, 1<<20)
		var r proto.ConnectRequest
		d := proto.NewDecoder(f)
		r.Decode(&d)
		asked <- r
		_, _ = far.Write(grant(4 * time.Second))
	}()
	before := time.Now()
	c, err := Open(t.Context(), near, Hello{Session: 7, Password: []byte("0123456789abcdef"), Timeout: 10 * time.Second, LastZxid: 99})
	require.NoError(t, err)
	defer near.Close()
	require.Equal(t, Grant{7, 4 * time.Second, make([]byte, 16)}, c.Grant)
	require.False(t, c.Sent.Before(before))
	require.Equal(t, proto.ConnectRequest{LastZxid: 99, Timeout: 10000, Session: 7, Password: []byte("0123456789abcdef"), HasReadOnly: true}, <-asked)
}

// TestAGrantIsCapped: we keep what we asked for, and what a server with a long minimum grants.
func TestAGrantIsCapped(t *testing.T) {
	for _, c := range []struct{ asked, granted, kept time.Duration }{
		{10 * time.Second, 4 * time.Second, 4 * time.Second},
		{time.Second, 10 * time.Minute, 10 * time.Minute},
		{time.Second, 24 * 24 * time.Hour, 10 * time.Minute},
		{time.Hour, time.Hour, time.Hour},
		{time.Hour, 2 * time.Hour, time.Hour},
	} {
		near := serve(grant(c.granted), nil)
		opened, err := Open(t.Context(), near, Hello{Timeout: c.asked})
		require.NoError(t, err)
		require.Equal(t, c.kept, opened.Grant.Timeout)
		near.Close()
	}
}

func TestABadWelcomeIsAnError(t *testing.T) {
	welcome := func(r proto.ConnectResponse) []byte { return frame(&r) }
	for name, c := range map[string]struct {
		said []byte
		want error
	}{
		"a timeout of 0":       {welcome(proto.ConnectResponse{Session: 7}), ErrRefused},
		"a negative timeout":   {welcome(proto.ConnectResponse{Session: 7, Timeout: -5}), ErrRefused},
		"no session":           {welcome(proto.ConnectResponse{Password: make([]byte, 16)}), ErrExpired},
		"Keeper has no leader": {welcome(proto.ConnectResponse{Version: 42, Session: -1, Timeout: 10000}), ErrRefused},
		"read-only":            {welcome(proto.ConnectResponse{Session: 7, Timeout: 10000, ReadOnly: true, HasReadOnly: true}), ErrRefused},
		"empty frame":          {[]byte{0, 0, 0, 0}, ErrRefused},
		"short frame":          {[]byte{0, 0, 0, 4, 1, 2, 3, 4}, ErrRefused},
		"endless frame":        {[]byte{0xff, 0xff, 0xff, 0xff}, ErrRefused},
		"HTTP":                 {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), ErrRefused},
		"250 MB, never sent":   {[]byte{0x0f, 0, 0, 0, 1}, io.ErrUnexpectedEOF},
		"nothing":              {nil, io.EOF},
		"an endless password":  {frame(&proto.RequestHeader{}, &proto.RequestHeader{}, &proto.RequestHeader{Xid: 1 << 30}), ErrRefused},
	} {
		near := serve(c.said, nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(t.Context(), near, Hello{Timeout: time.Second})
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, c.want, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), name)
	}
}

func TestARealIDMayBeNegative(t *testing.T) {
	c := new(Conn)
	require.NoError(t, c.accept(proto.ConnectResponse{Session: -1, Timeout: 5}, nil))
	require.NoError(t, c.accept(proto.ConnectResponse{Session: -1 << 60, Timeout: 5}, nil))
}

func TestCredentialsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		said []byte
		want error
	}{
		"refused":                   {frame(&proto.ReplyHeader{Xid: proto.XidAuth, Code: proto.AuthFailed}), zk.ErrAuthFailed},
		"a short reply":             {[]byte{0, 0, 0, 1, 0}, ErrRefused},
		"a reply to something else": {frame(&proto.ReplyHeader{Xid: 9}), ErrRefused},
		"hanging up is no refusal":  {nil, io.EOF},
		"fine":                      {frame(&proto.ReplyHeader{Xid: proto.XidAuth}), nil},
	} {
		asked := make(chan proto.AuthRequest, 1)
		near := serve(grant(time.Second), func(far net.Conn) {
			f, err := proto.ReadFrame(far, 1<<20)
			if err != nil {
				return
			}
			var r proto.AuthRequest
			d := proto.NewDecoder(f[8:])
			r.Decode(&d)
			asked <- r
			_, _ = far.Write(c.said)
		})
		_, err := Open(t.Context(), near, Hello{Timeout: time.Second, Auths: []Auth{{"digest", []byte("u:p")}}})
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, proto.AuthRequest{Scheme: "digest", Cred: []byte("u:p")}, <-asked)
		near.Close()
	}
}

func TestASASLExchangeEndsAsTheMechanismAndTheServerSay(t *testing.T) {
	token := func(text string) []byte { // the server's, in frames with the numbers of the requests
		return (&proto.SASLToken{Token: []byte(text)}).Append(nil)
	}
	type reply struct {
		code proto.Code
		body []byte
	}
	refuse := errors.New("wrong")
	// The client says first, one, two, ..., and is done with the number that last names.
	for name, c := range map[string]struct {
		replies []reply
		next    func(n int, token string) ([]byte, bool, error)
		asked   []string
		want    error
	}{
		"done without a last word": {[]reply{{body: token("a")}, {body: token("b")}}, func(n int, _ string) ([]byte, bool, error) {
			if n == 2 {
				return nil, true, nil
			}
			return []byte("one"), false, nil
		}, []string{"first", "one"}, nil},
		"done with a last word, which is answered": {[]reply{{body: token("a")}, {body: token("")}}, func(int, string) ([]byte, bool, error) {
			return []byte("one"), true, nil
		}, []string{"first", "one"}, nil},
		"done with an empty word that is none": {[]reply{{body: token("a")}, {body: token("b")}}, func(n int, _ string) ([]byte, bool, error) {
			return nil, n == 2, nil
		}, []string{"first", ""}, nil},
		"refused by the server":    {[]reply{{code: proto.AuthFailed}}, nil, []string{"first"}, zk.ErrAuthFailed},
		"refused where it is must": {[]reply{{code: proto.SessionClosedRequireSASL}}, nil, []string{"first"}, ServerError(proto.SessionClosedRequireSASL)},
		"refused by the mechanism": {[]reply{{body: token("a")}}, func(int, string) ([]byte, bool, error) { return nil, false, refuse }, []string{"first"}, refuse},
		"half a token":             {[]reply{{body: []byte{0, 0, 0, 9}}}, nil, []string{"first"}, ErrRefused},
		"hanging up is no refusal": {nil, nil, []string{"first"}, io.EOF},
	} {
		asked := make(chan []string, 1)
		near := serve(grant(time.Second), func(far net.Conn) {
			var got []string
			for i := 0; ; i++ {
				f, err := proto.ReadFrame(far, 1<<20)
				if err != nil {
					break
				}
				var h proto.RequestHeader
				var r proto.SASLToken
				d := proto.NewDecoder(f)
				h.Decode(&d)
				r.Decode(&d)
				assert.Equal(t, proto.RequestHeader{Xid: int32(i + 1), Op: proto.OpSASL}, h, name)
				assert.NotNil(t, r.Token, name)
				got = append(got, string(r.Token))
				if i >= len(c.replies) {
					break
				}
				said := c.replies[i]
				_, _ = far.Write(proto.Seal(append((&proto.ReplyHeader{Xid: h.Xid, Code: said.code}).Append(proto.Begin(64)), said.body...)))
			}
			asked <- got
		})
		n := 0
		_, err := Open(t.Context(), near, Hello{Timeout: time.Second, SASL: &SASL{Name: "TEST", First: []byte("first"), Next: func(token []byte) ([]byte, bool, error) {
			n++
			return c.next(n, string(token))
		}}})
		require.ErrorIs(t, err, c.want, name)
		if err != nil {
			require.ErrorContains(t, err, "SASL TEST: ", name)
		}
		if errors.Is(err, refuse) || errors.Is(err, ServerError(proto.SessionClosedRequireSASL)) {
			require.ErrorIs(t, err, zk.ErrAuthFailed, name)
		}
		near.Close()
		require.Equal(t, c.asked, <-asked, name)
	}
}

// noDeadlines is a connection that has none, such as one through SSH.
type noDeadlines struct{ net.Conn }

func (noDeadlines) SetDeadline(time.Time) error { return errors.ErrUnsupported }

func TestOpenEndsWithItsContext(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"deadlines":    func(nc net.Conn) net.Conn { return nc },
		"no deadlines": func(nc net.Conn) net.Conn { return noDeadlines{nc} },
	} {
		for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
			t.Run(fmt.Sprint(name, ", ", want), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					near := serve(nil, func(far net.Conn) { _, _ = io.Copy(io.Discard, far) }) // and no answer
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if want == context.Canceled {
						ctx, cancel = context.WithCancel(t.Context())
						time.AfterFunc(time.Second, cancel)
					}
					began := time.Now()
					_, err := Open(ctx, wrap(near), Hello{Timeout: time.Second})
					require.ErrorIs(t, err, want)
					require.Equal(t, time.Second, time.Since(began))
					_, err = near.Write(nil)
					require.ErrorIs(t, err, io.ErrClosedPipe, "it closes what it was given")
				})
			})
		}
	}
}

func FuzzServer(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(grant(time.Second), false)
	f.Add(append(grant(time.Second), frame(&proto.ReplyHeader{Xid: proto.XidAuth})...), true)
	f.Add(append(grant(time.Second), frame(&proto.ReplyHeader{Xid: 1}, &proto.DataResponse{})...), false)
	f.Add(append(grant(time.Second), frame(&proto.ReplyHeader{Xid: proto.XidEvent}, &proto.WatcherEvent{Type: 1, Path: "/a"})...), false)
	f.Add(append(grant(time.Second), 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff), false)
	f.Add(frame(&proto.ConnectResponse{Session: 1, Timeout: -1}), false)
	f.Fuzz(func(t *testing.T, said []byte, auth bool) {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		go func() {
			_, _ = far.Write(said)
			far.Close()
		}()
		hello := Hello{Timeout: time.Second}
		if auth {
			hello.Auths = []Auth{{"digest", []byte("u:p")}}
		}
		c, err := Open(t.Context(), near, hello)
		if err != nil {
			far.Close()
			return
		}
		if c.Grant.Timeout <= 0 || c.Grant.Session == 0 {
			t.Fatal("a session from nowhere")
		}
		c.Start(Handlers{Answered: func(Answer) error { return nil }, Event: func(zk.Event, int64) {}, Ended: func() {}})
		answered := make(chan error, 1)
		r, _ := request(proto.OpGetData, &proto.ReadRequest{Path: "/a"})
		r.Handler = handlerFunc(func(d *proto.Decoder, err error) {
			if err == nil {
				new(proto.DataResponse).Decode(d)
			}
			answered <- err
		})
		c.Send(r)
		<-answered
		c.Close(nil)
		<-c.Done()
	})
}
