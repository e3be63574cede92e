package gssapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/sasl"
)

// fakeKDC grants tickets of an hour, or fails with err, after a second.
type fakeKDC struct {
	mu    sync.Mutex
	asked int
	err   error
}

func (k *fakeKDC) ask(string, string) (*ticket, error) {
	time.Sleep(time.Second) // in a bubble of synctest: see inBubble
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.err != nil {
		return nil, k.err
	}
	return &ticket{end: time.Now().Add(time.Hour)}, nil
}

func (k *fakeKDC) fails(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// inBubble runs a test with tickets of a KDC. get returns one for the same server each time; asked
// is how often the KDC was asked.
func inBubble(t *testing.T, test func(t *testing.T, kdc *fakeKDC, s *tickets, get func() (*ticket, error), asked func() int)) {
	synctest.Test(t, func(t *testing.T) {
		kdc := new(fakeKDC)
		s := &tickets{ask: kdc.ask}
		get := func() (*ticket, error) { return s.get(t.Context(), "zookeeper", "host") }
		asked := func() int { kdc.mu.Lock(); defer kdc.mu.Unlock(); return kdc.asked }
		test(t, kdc, s, get, asked)
	})
}

func TestATicketThatTheServerAcceptsIsUsedForFiveSixthsOfItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fakeKDC, s *tickets, get func() (*ticket, error), asked func() int) {
		first, err := get()
		require.NoError(t, err)
		s.accepted("zookeeper", "host", first)
		for range 5 {
			time.Sleep(10*time.Minute - time.Second)
			again, err := get()
			require.NoError(t, err)
			require.Same(t, first, again)
			s.accepted("zookeeper", "host", again)
		}
		time.Sleep(5 * time.Second)
		other, err := get()
		require.NoError(t, err)
		require.NotSame(t, first, other)
		require.Equal(t, 2, asked())
	})
}

func TestATicketThatTheServerDoesNotAcceptIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fakeKDC, s *tickets, get func() (*ticket, error), asked func() int) {
		first, err := get()
		require.NoError(t, err)
		s.accepted("zookeeper", "host", first)
		time.Sleep(20 * time.Minute) // then the server's key changes
		for range 29 {
			again, err := get()
			require.NoError(t, err)
			require.Same(t, first, again, "the server may be down")
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		other, err := get()
		require.NoError(t, err)
		require.NotSame(t, first, other)
		s.accepted("zookeeper", "host", first) // late: it says nothing of the other
		time.Sleep(askAgain)
		_, err = get()
		require.NoError(t, err)
		require.Equal(t, 3, asked())
	})
}

func TestAFreshTicketThatTheServerDoesNotAcceptIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *fakeKDC, s *tickets, get func() (*ticket, error), asked func() int) {
		for began := time.Now(); time.Since(began) < 10*time.Minute; time.Sleep(time.Second / 2) {
			_, err := get()
			require.NoError(t, err)
		}
		require.InDelta(t, 10*time.Minute/askAgain, asked(), 1)
	})
}

// TestATicketIsAcceptedByTheServersProof calls what a client calls.
func TestATicketIsAcceptedByTheServersProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, granted := newAcceptor(t, etypeID.AES128_CTS_HMAC_SHA1_96)
		asked := 0
		m := build("alice", nil, nil)
		m.tickets.ask = func(string, string) (*ticket, error) { asked++; return granted, nil }
		for i, test := range []struct {
			offer []byte // the layers; nil: the server does not answer
			asked int
		}{{[]byte{1, 0, 0, 0}, 1}, {nil, 1}, {[]byte{4, 0, 0, 0}, 2}, {nil, 3}} {
			exchange, err := m.start(t.Context(), sasl.Server{Host: "host"})
			require.NoError(t, err)
			require.Equal(t, test.asked, asked, i)
			if test.offer != nil {
				a.accept(t, exchange.First)
				_, done, err := exchange.Next(a.offer(t, 1, test.offer...))
				require.True(t, done)
				require.Equal(t, test.offer[0] == 1, err == nil)
			}
			time.Sleep(askAgain)
		}
	})
}

func TestAKDCThatRefusesIsAskedAgainAfterAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, kdc *fakeKDC, s *tickets, get func() (*ticket, error), asked func() int) {
		kdc.fails(fmt.Errorf("%w: wrong password", errRefused))
		for range 29 {
			_, err := get()
			require.EqualError(t, err, "the KDC refused the request: wrong password")
			time.Sleep(time.Second)
		}
		require.Equal(t, 1, asked())
		kdc.fails(nil)
		time.Sleep(time.Second)
		_, err := get()
		require.NoError(t, err)
	})
}

func TestOtherErrorsAreTriedAgainAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, kdc *fakeKDC, s *tickets, get func() (*ticket, error), asked func() int) {
		for i, want := range []error{zk.ErrNoServer, errors.New("no such file"), nil} {
			kdc.fails(want)
			got, err := get()
			require.ErrorIs(t, err, want)
			require.Equal(t, want == nil, got != nil)
			require.Equal(t, i+1, asked())
		}
	})
}

func TestAnOldTicketIsUsedWhileNoKDCAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, kdc *fakeKDC, s *tickets, get func() (*ticket, error), asked func() int) {
		first, err := get()
		require.NoError(t, err)
		kdc.fails(fmt.Errorf("%w: timeout", zk.ErrNoServer))
		for time.Now().Before(first.end.Add(-2 * time.Second)) {
			again, err := get()
			require.NoError(t, err)
			require.Same(t, first, again)
			time.Sleep(time.Second)
		}
		require.InDelta(t, time.Hour/askAgain, asked(), 10, "each 30 s")
		time.Sleep(askAgain)
		_, err = get()
		require.ErrorIs(t, err, zk.ErrNoServer, "it has expired")
		_, err = get()
		require.ErrorIs(t, err, zk.ErrNoServer)
	})
}

func TestAnOldTicketIsNotUsedWhenTheKDCRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, kdc *fakeKDC, s *tickets, get func() (*ticket, error), asked func() int) {
		_, err := get()
		require.NoError(t, err)
		kdc.fails(errRefused)
		time.Sleep(askAgain)
		_, err = get()
		require.ErrorIs(t, err, errRefused)
	})
}

func TestCallersAtTheSameTimeWaitForOneRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, kdc *fakeKDC, s *tickets, get func() (*ticket, error), asked func() int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := s.get(ctx, "zookeeper", "host")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var wg sync.WaitGroup
		got := make([]*ticket, 10)
		for i := range got {
			wg.Go(func() { got[i], _ = get() })
		}
		wg.Wait()
		require.NotNil(t, got[0])
		for _, one := range got {
			require.Same(t, got[0], one)
		}
		require.Equal(t, 1, asked(), "the request of the caller that gave up")
		other, err := s.get(t.Context(), "zookeeper", "other")
		require.NoError(t, err)
		require.NotSame(t, got[0], other, "another server")
	})
}
