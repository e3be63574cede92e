package zktest_test

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestAnswersAreReplaced(t *testing.T) {
	s, c := serve(t)
	lie := []byte{0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 1, 2}
	var asked []zktest.Request
	var answers [][]byte
	stop := s.Rewrite(func(r zktest.Request, answer []byte) []byte {
		require.True(t, s.Exists("/a"), "it was carried out, and the server can be used")
		asked, answers = append(asked, r), append(answers, answer)
		return lie
	}, zktest.OnCreate(), zktest.OnSession(c.id))
	xid := send(t, c, opCreate, create("/a", 0))
	record, err := c.read()
	require.NoError(t, err)
	require.Equal(t, lie[4:], record)
	require.Len(t, asked, 1)
	require.Equal(t, "/a", asked[0].Path)
	require.EqualValues(t, len(answers[0])-4, binary.BigEndian.Uint32(answers[0]), "the answer is a frame")
	require.EqualValues(t, xid, binary.BigEndian.Uint32(answers[0][4:]))
	ping(t, c)                                 // pings are not picked, and the connection goes on
	mustCreate(t, raw(t, s, nil), "/other", 0) // another session
	stop()
	mustCreate(t, c, "/b", 0)
}

func TestAnswersAreTakenAwayAndAdded(t *testing.T) {
	s, c := serve(t)
	var first []byte
	stop := s.Rewrite(func(_ zktest.Request, answer []byte) []byte {
		if first == nil {
			first = answer
			return nil
		}
		return append(answer, first...)
	}, zktest.OnCreate())
	defer stop()
	// Sees the first one's result.
	again := s.Rewrite(func(_ zktest.Request, answer []byte) []byte { return answer })
	defer again()
	x1, x2 := send(t, c, opCreate, create("/a", 0)), send(t, c, opCreate, create("/b", 0))
	r, err := c.answer(x2)
	require.NoError(t, err)
	require.Zero(t, r.code)
	require.NoError(t, testbed.Err(c.answer(x1)))
}

func TestHandshakesAreReplacedIfTheyAreNamed(t *testing.T) {
	s := zktest.NewServer(t)
	stop := s.Rewrite(func(zktest.Request, []byte) []byte { return []byte("no") })
	defer stop()
	raw(t, s, nil) // any request, but not housekeeping
	stop = s.Rewrite(func(_ zktest.Request, answer []byte) []byte {
		binary.BigEndian.PutUint32(answer[8:], 0) // the timeout
		return answer
	}, zktest.OnOp("connect"))
	c := raw(t, s, nil)
	require.Zero(t, c.timeout)
	require.NotZero(t, c.id)
	stop()
	require.NotZero(t, raw(t, s, nil).timeout)
}

func TestAnAnswerWithoutAnEnd(t *testing.T) {
	s, c := serve(t)
	defer s.Rewrite(func(zktest.Request, []byte) []byte {
		return []byte{0x0f, 0xff, 0xff, 0xff, 1} // 250 MB, and one byte of them
	}, zktest.OnOp("getData"))()
	send(t, c, opGetData, watched("/", false))
	var head [5]byte
	require.NoError(t, testbed.Err(io.ReadFull(c.conn, head[:])))
	require.Equal(t, [5]byte{0x0f, 0xff, 0xff, 0xff, 1}, head)
}
