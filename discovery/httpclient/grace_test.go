package httpclient_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
)

// Curator 5.9.0 registers again 1.16 to 2.35 s after its session has ended, although the provider
// serves all the time.
func TestGrace_NoCallIsLostWhileJavaRegistersAgain(t *testing.T) {
	virtual(t, func(t *testing.T, n *network) {
		b := n.start(t, "java")
		data, err := n.Server.Get("/services/orders/java")
		require.NoError(t, err)
		require.NoError(t, b.registered.Close())
		require.NoError(t, n.Server.Create("/services/orders/java", data))
		caller, _ := n.caller(t)
		require.NoError(t, n.Server.Delete("/services/orders/java"))
		time.AfterFunc(2350*time.Millisecond, func() { _ = n.Server.Create("/services/orders/java", data) })
		for range 50 { // each takes 100 ms
			_, err := get(caller)
			require.NoError(t, err)
		}
	})
}

func TestGrace_OfADeadInstance(t *testing.T) {
	t.Run("beside a live one it gets no call", func(t *testing.T) {
		virtual(t, func(t *testing.T, n *network) {
			n.start(t, "lives")
			dead := n.start(t, "dead")
			caller, _ := n.caller(t)
			require.NoError(t, dead.registered.Close()) // stands for the end of its session
			synctest.Wait()                             // the watch has it
			for range 50 {
				text, err := get(caller)
				require.NoError(t, err)
				require.Contains(t, text, "lives")
			}
		})
	})
	t.Run("alone, calls fail to connect until the grace ends", func(t *testing.T) {
		virtual(t, func(t *testing.T, n *network) {
			dead := n.start(t, "dead")
			caller, w := n.caller(t)
			dead.kill()
			require.NoError(t, dead.registered.Close())
			synctest.Wait()
			began := time.Now()
			_, err := get(caller)
			refused := (*net.OpError)(nil)
			require.True(t, errors.As(err, &refused), "%v", err)
			for range w.Available(t.Context()) { // two lists: the dead instance, and then none
				if time.Since(began) > 0 {
					break
				}
			}
			require.Equal(t, 5*time.Second, time.Since(began))
			_, err = get(caller)
			require.ErrorIs(t, err, discovery.ErrNoInstance)
		})
	})
	t.Run("a drained one gets none at once", func(t *testing.T) {
		virtual(t, func(t *testing.T, n *network) {
			drained := n.start(t, "drained")
			caller, _ := n.caller(t)
			require.NoError(t, drained.registered.Drain(t.Context(), 0))
			synctest.Wait()
			_, err := get(caller)
			require.ErrorIs(t, err, discovery.ErrNoInstance)
		})
	})
}
