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

	"github.com/gocurator/curator/internal/test/testbed"
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

// bubble has tickets of a KDC for one server, in virtual time.
type bubble struct {
	t   *testing.T
	kdc *fakeKDC
	tickets
}

func inBubble(t *testing.T, test func(t *testing.T, b *bubble)) {
	synctest.Test(t, func(t *testing.T) {
		kdc := new(fakeKDC)
		test(t, &bubble{t, kdc, tickets{ask: kdc.ask}})
	})
}

// ticket returns a ticket for the same server each time.
func (b *bubble) ticket() *ticket {
	b.t.Helper()
	got, err := b.try()
	require.NoError(b.t, err)
	return got
}

func (b *bubble) try() (*ticket, error) { return b.get(b.t.Context(), "zookeeper", "host") }

func (b *bubble) accept(t *ticket) { b.accepted("zookeeper", "host", t) }

// asked is how often the KDC was asked.
func (b *bubble) asked() int {
	b.kdc.mu.Lock()
	defer b.kdc.mu.Unlock()
	return b.kdc.asked
}

func TestATicketThatTheServerAcceptsIsUsedForFiveSixthsOfItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		first := b.ticket()
		b.accept(first)
		for range 5 {
			time.Sleep(10*time.Minute - time.Second)
			again := b.ticket()
			require.Same(t, first, again)
			b.accept(again)
		}
		time.Sleep(5 * time.Second)
		require.NotSame(t, first, b.ticket())
		require.Equal(t, 2, b.asked())
	})
}

func TestATicketThatTheServerDoesNotAcceptIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		first := b.ticket()
		b.accept(first)
		time.Sleep(20 * time.Minute) // then the server's key changes
		for range 29 {
			require.Same(t, first, b.ticket(), "the server may be down")
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		require.NotSame(t, first, b.ticket())
		b.accept(first) // late: it says nothing of the other
		time.Sleep(askAgain)
		b.ticket()
		require.Equal(t, 3, b.asked())
	})
}

func TestAFreshTicketThatTheServerDoesNotAcceptIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		for began := time.Now(); time.Since(began) < 10*time.Minute; time.Sleep(time.Second / 2) {
			b.ticket()
		}
		require.InDelta(t, 10*time.Minute/askAgain, b.asked(), 1)
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
	inBubble(t, func(t *testing.T, b *bubble) {
		b.kdc.fails(fmt.Errorf("%w: wrong password", errRefused))
		for range 29 {
			require.EqualError(t, testbed.Err(b.try()), "the KDC refused the request: wrong password")
			time.Sleep(time.Second)
		}
		require.Equal(t, 1, b.asked())
		b.kdc.fails(nil)
		time.Sleep(time.Second)
		b.ticket()
	})
}

func TestOtherErrorsAreTriedAgainAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		for i, want := range []error{zk.ErrNoServer, errors.New("no such file"), nil} {
			b.kdc.fails(want)
			got, err := b.try()
			require.ErrorIs(t, err, want)
			require.Equal(t, want == nil, got != nil)
			require.Equal(t, i+1, b.asked())
		}
	})
}

func TestAnOldTicketIsUsedWhileNoKDCAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		first := b.ticket()
		b.kdc.fails(fmt.Errorf("%w: timeout", zk.ErrNoServer))
		for time.Now().Before(first.end.Add(-2 * time.Second)) {
			require.Same(t, first, b.ticket())
			time.Sleep(time.Second)
		}
		require.InDelta(t, time.Hour/askAgain, b.asked(), 10, "each 30 s")
		time.Sleep(askAgain)
		for range 2 {
			require.ErrorIs(t, testbed.Err(b.try()), zk.ErrNoServer, "it has expired")
		}
	})
}

func TestAnOldTicketIsNotUsedWhenTheKDCRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.ticket()
		b.kdc.fails(errRefused)
		time.Sleep(askAgain)
		require.ErrorIs(t, testbed.Err(b.try()), errRefused)
	})
}

func TestCallersAtTheSameTimeWaitForOneRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		_, err := b.get(testbed.Timeout(t, time.Second/2), "zookeeper", "host")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var wg sync.WaitGroup
		got := make([]*ticket, 10)
		for i := range got {
			wg.Go(func() { got[i], _ = b.try() })
		}
		wg.Wait()
		require.NotNil(t, got[0])
		for _, one := range got {
			require.Same(t, got[0], one)
		}
		require.Equal(t, 1, b.asked(), "the request of the caller that gave up")
		other, err := b.get(t.Context(), "zookeeper", "other")
		require.NoError(t, err)
		require.NotSame(t, got[0], other, "another server")
	})
}
