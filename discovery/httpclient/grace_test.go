package httpclient_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
