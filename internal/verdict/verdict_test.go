package verdict_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/internal/proto"
	"github.com/gocurator/curator/internal/verdict"
	"github.com/gocurator/curator/zktest"
)

// opinion is an error whose verdict is Unknown.
type opinion struct {
	error
	unknown bool
}

func (o opinion) Unknown() bool { return o.unknown }
func (o opinion) Unwrap() error { return o.error }

// unhashable errors must not be used as map keys, and cannot be compared.
type unhashable []string

func (u unhashable) Error() string { return fmt.Sprint([]string(u)) }

// hollow wraps nothing, in each way there is.
type (
	hollow     struct{}
	hollowList struct{}
)

func (hollow) Error() string       { return "hollow" }
func (hollow) Unwrap() error       { return nil }
func (hollowList) Error() string   { return "hollow list" }
func (hollowList) Unwrap() []error { return []error{nil, nil} }

type judgement struct {
	err                error
	retryable, unknown bool
}

// judgements holds one row for each error that a request can fail with.
var judgements = []judgement{ // CUR-RTY-10, KZ-RTY-04
	{zk.ErrConnectionClosed, true, true},
	{zk.ErrClosing, true, true},
	{io.EOF, true, true},
	{io.ErrUnexpectedEOF, true, true},
	{io.ErrClosedPipe, true, true},
	{net.ErrClosed, true, true},
	{os.ErrDeadlineExceeded, true, true},
	{syscall.ECONNRESET, true, true},
	{syscall.EPIPE, true, true},
	{&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EHOSTUNREACH)}, true, true},

	{zk.ErrNoServer, true, false},
	{zk.ErrSessionExpired, true, false},
	{zk.ErrSessionMoved, true, false},

	{nil, false, false},
	{zk.ErrNoNode, false, false},
	{zk.ErrNodeExists, false, false},
	{zk.ErrBadVersion, false, false},
	{zk.ErrNotEmpty, false, false},
	{zk.ErrNoChildrenForEphemerals, false, false},
	{zk.ErrNoAuth, false, false},
	{zk.ErrAuthFailed, false, false},
	{zk.ErrInvalidACL, false, false},
	{zk.ErrReconfigDisabled, false, false},
	{zk.ErrBadArguments, false, false},
	{zk.ErrInvalidFlags, false, false},
	{zk.ErrInvalidPath, false, false},
	{zk.ErrUnknown, false, false},
	{zk.ErrNothing, false, false},
	{zk.ErrAPIError, false, false},
	{zk.ErrShortBuffer, false, false},
	{errors.New("unknown error: -127"), false, false}, // texts say nothing
	{context.Canceled, false, false},
	{context.DeadlineExceeded, false, false}, // although it is a net.Error
	{errors.New("of someone else"), false, false},
	{&fs.PathError{Op: "open", Path: "f", Err: syscall.ENOENT}, false, false},
	{unhashable{"a"}, false, false},
	{hollow{}, false, false},
	{hollowList{}, false, false},

	{word(verdict.Lost), true, true},
	{word(verdict.Refused), true, false},
	{word(verdict.Answered), false, false},
	{word(verdict.Over), false, false},
}

func TestEveryErrorHasAJudgement(t *testing.T) {
	for _, j := range judgements {
		t.Run(fmt.Sprintf("%T %v", j.err, j.err), func(t *testing.T) {
			require.Equal(t, j.retryable, verdict.Retryable(j.err), "Retryable")
			require.Equal(t, j.unknown, verdict.Unknown(j.err), "Unknown")
			if j.err == nil {
				return
			}
			wrapped := fmt.Errorf("create /a: %w", fmt.Errorf("attempt 2: %w", j.err))
			require.Equal(t, j.retryable, verdict.Retryable(wrapped), "Retryable, wrapped")
			require.Equal(t, j.unknown, verdict.Unknown(wrapped), "Unknown, wrapped")

			beside := fmt.Errorf("%w: %w", errors.New("session lost"), j.err)
			require.Equal(t, j.retryable, verdict.Retryable(beside), "Retryable, beside a stranger")
			require.Equal(t, j.unknown, verdict.Unknown(beside), "Unknown, beside a stranger")

			permanent := backoff.Permanent(j.err)
			require.False(t, verdict.Retryable(permanent), "Retryable, permanent")
			require.False(t, verdict.Retryable(fmt.Errorf("create /a: %w", permanent)), "Retryable, permanent")
			require.Equal(t, j.unknown, verdict.Unknown(permanent), "Unknown, permanent")
		})
	}
}

// TestAFinalErrorWinsWhereErrorsAreJoined: beside an unknown error, the other one decides.
func TestAFinalErrorWinsWhereErrorsAreJoined(t *testing.T) {
	for _, err := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals,
		zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrReconfigDisabled, zk.ErrBadArguments,
		zk.ErrInvalidFlags, zk.ErrInvalidPath, context.Canceled, context.DeadlineExceeded,
		backoff.Permanent(errors.New("client closed")),
	} {
		require.False(t, verdict.Retryable(errors.Join(zk.ErrConnectionClosed, err)), "%v", err)
		require.False(t, verdict.Retryable(fmt.Errorf("%w: %w", err, zk.ErrNoServer)), "%v", err)
		require.True(t, verdict.Unknown(errors.Join(zk.ErrConnectionClosed, err)), "%v", err)
	}
}

func TestJoinedErrorsAreJudgedTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.SampledFrom(judgements), 1, 5).Draw(t, "errors")
		var all error
		retryable, unknown := false, false
		for _, row := range rows {
			if rapid.Bool().Draw(t, "deeper") {
				all = fmt.Errorf("%w, then %w", errors.Join(all, io.ErrNoProgress), errors.Join(row.err, nil))
			} else {
				all = errors.Join(all, row.err)
			}
			retryable = retryable || row.retryable
			unknown = unknown || row.unknown
		}
		require.Equal(t, unknown, verdict.Unknown(all))
		require.False(t, verdict.Retryable(all) && !retryable, "%v", all)
	})
}

func TestAnErrorMayAnswerForItself(t *testing.T) {
	found := opinion{zk.ErrConnectionClosed, false} // looked afterwards, and knows
	left := opinion{context.Canceled, true}         // left while the request was on its way

	require.False(t, verdict.Unknown(found))
	require.False(t, verdict.Unknown(fmt.Errorf("create /a: %w", found)))
	require.True(t, verdict.Unknown(errors.Join(found, zk.ErrConnectionClosed)))
	require.True(t, verdict.Unknown(left))
	require.True(t, verdict.Unknown(fmt.Errorf("create /a: %w", left)))
	require.True(t, verdict.Unknown(errors.Join(zk.ErrNoNode, left)))
	require.False(t, verdict.Unknown(opinion{left, false}), "the outermost one counts")

	require.True(t, verdict.Retryable(found))
	require.False(t, verdict.Retryable(left))
}

func TestRealSocketErrorsLeaveTheOutcomeUnknown(t *testing.T) {
	for name, provoke := range map[string]func(t *testing.T) error{
		"write to our own closed socket": func(t *testing.T) error {
			ours, _ := tcpPair(t)
			ours.Close()
			_, err := ours.Write([]byte("x"))
			return err
		},
		"write past the deadline": func(t *testing.T) error {
			ours, _ := tcpPair(t)
			require.NoError(t, ours.SetWriteDeadline(time.Now().Add(-time.Second)))
			_, err := ours.Write([]byte("x"))
			return err
		},
		"write to a socket that was reset": func(t *testing.T) error {
			ours, theirs := tcpPair(t)
			require.NoError(t, theirs.SetLinger(0))
			theirs.Close()
			_, err := ours.Read(make([]byte, 1)) // returns when the reset is here
			require.Error(t, err)
			_, err = ours.Write([]byte("x"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := provoke(t)
			require.Error(t, err)
			require.True(t, verdict.Retryable(err), "%v", err)
			require.True(t, verdict.Unknown(err), "%v", err)
		})
	}
}

func tcpPair(t *testing.T) (ours, theirs *net.TCPConn) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer listener.Close()
	ours, err = net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
	require.NoError(t, err)
	t.Cleanup(func() { ours.Close() })
	theirs, err = listener.AcceptTCP()
	require.NoError(t, err)
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// The verdicts depend on the errors that go-zookeeper returns for each failure: which errors mean
// "never sent". For some codes it has no error values.
func TestGoZookeepersErrorsAreJudgedByWhatHappened(t *testing.T) {
	answers := func(code proto.Code) func(*zktest.Server) {
		return func(s *zktest.Server) {
			s.Rewrite(func(_ zktest.Request, answer []byte) []byte {
				header := proto.ReplyHeader{Xid: int32(binary.BigEndian.Uint32(answer[4:])), Code: code}
				return proto.Seal(header.Append(proto.Begin(64)))
			}, zktest.OnOp("getData"))
		}
	}
	for _, test := range []struct {
		name               string
		fault              func(*zktest.Server)
		writeErr           error // of the client's writes, once connected
		want               string
		retryable, unknown bool
		received           int // requests that reached the server
	}{
		{"throttled", answers(proto.Throttled), nil, "unknown error: -127", false, false, 1},
		{"session expired", answers(proto.SessionExpired), nil, zk.ErrSessionExpired.Error(), true, false, 1},
		{"session moved", answers(proto.SessionMoved), nil, zk.ErrSessionMoved.Error(), true, false, 1},
		{"no node", func(*zktest.Server) {}, nil, zk.ErrNoNode.Error(), false, false, 1},
		{"cut instead of a reply", func(s *zktest.Server) { s.Inject(zktest.LoseReply, 0, zktest.OnOp("getData")) }, nil,
			zk.ErrConnectionClosed.Error(), true, true, 1},
		{"the write fails", func(*zktest.Server) {}, errBroken, errBroken.Error(), true, true, 0},
		{"nobody there", func(s *zktest.Server) { s.RefuseConnections(true) }, nil, zk.ErrNoServer.Error(), true, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zktest.WithInMemory())
				test.fault(server)
				dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
					conn, err := server.Dial(network, address, timeout)
					return &breaking{Conn: conn, err: test.writeErr}, err
				}
				conn, _, err := zk.Connect(server.Servers(), 10*time.Second,
					zk.WithDialer(dial), zk.WithLogInfo(false), zk.WithLogger(quiet{}))
				require.NoError(t, err)
				defer conn.Close()

				_, _, err = conn.Get("/a")
				require.EqualError(t, err, test.want)
				require.Equal(t, test.retryable, verdict.Retryable(err))
				require.Equal(t, test.unknown, verdict.Unknown(err))
				synctest.Wait()
				require.Equal(t, test.received, server.Requests().Requests["getData"])
			})
		})
	}
}

var errBroken = &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// breaking fails each write after the first, which is the handshake.
type breaking struct {
	net.Conn
	err    error
	writes int
}

func (b *breaking) Write(p []byte) (int, error) {
	b.writes++
	if b.err != nil && b.writes > 1 {
		return 0, b.err
	}
	return b.Conn.Write(p)
}

// word is an error with its own verdict.
type word verdict.Verdict

func (word) Error() string              { return "word" }
func (w word) Verdict() verdict.Verdict { return verdict.Verdict(w) }

func TestOneVerdictOnSeveralErrors(t *testing.T) {
	for _, c := range []struct {
		errs []error
		want verdict.Verdict
	}{
		{nil, verdict.Answered},
		{[]error{errors.New("of someone else")}, verdict.Answered},
		{[]error{word(verdict.Over), zk.ErrSessionExpired}, verdict.Over},
		{[]error{zk.ErrNoNode, context.Canceled}, verdict.Over},
		{[]error{zk.ErrConnectionClosed, zk.ErrNoNode}, verdict.Answered},
		{[]error{zk.ErrConnectionClosed, word(verdict.Answered)}, verdict.Answered},
		{[]error{zk.ErrConnectionClosed, context.DeadlineExceeded}, verdict.Over},
		{[]error{zk.ErrNoServer, backoff.Permanent(errors.New("client closed"))}, verdict.Answered},
		{[]error{zk.ErrNoServer, zk.ErrConnectionClosed}, verdict.Lost},
		{[]error{opinion{zk.ErrNoServer, true}}, verdict.Lost},
		{[]error{opinion{zk.ErrConnectionClosed, false}}, verdict.Refused},
		{[]error{zk.ErrNoServer, errors.New("of someone else")}, verdict.Refused},
	} {
		err := errors.Join(c.errs...)
		require.Equal(t, c.want, verdict.Of(err), "%v", err)
		slices.Reverse(c.errs)
		require.Equal(t, c.want, verdict.Of(fmt.Errorf("get: %w", errors.Join(c.errs...))), "%v", err)
	}
	require.True(t, verdict.Unknown(fmt.Errorf("%w: %w", context.Canceled, zk.ErrConnectionClosed)), "that is another question")
}

func TestRefusedCredentialsMayPass(t *testing.T) {
	for _, err := range []error{zk.ErrConnectionClosed, zk.ErrNoServer, fmt.Errorf("get: %w", zk.ErrAuthFailed)} {
		require.True(t, verdict.MayPass(err), "%v", err)
		require.False(t, verdict.MayPass(fmt.Errorf("%w: %w", context.Canceled, err)), "%v", err)
	}
	require.False(t, verdict.MayPass(zk.ErrNoAuth))
	require.False(t, verdict.MayPass(nil))
}
