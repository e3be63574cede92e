package wait_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClosed(t *testing.T) {
	c := make(chan struct{})
	require.False(t, wait.Closed(c))
	require.False(t, wait.Closed(nil))
	close(c)
	require.True(t, wait.Closed(c))
}

func TestSignalsBeforeAReceiveCountAsOne(t *testing.T) {
	var s wait.Signal
	require.False(t, wait.Closed(s.C()), "nothing was raised")
	s.Raise()
	s.Raise()
	<-s.C()
	select {
	case <-s.C():
		t.Fatal("the second signal is the first")
	default:
	}
	s.Raise()
	<-s.C()
}

func TestASignalEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s wait.Signal
		var done sync.WaitGroup
		done.Go(func() { <-s.C() })
		synctest.Wait()
		s.Raise()
		done.Wait()
	})
}
