package framework_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// TestCreateThatIsCarriedOutAtTheEndOfItsSessionLeavesNoNode has a client give its session up early, and the servers, which end
// sessions once per tick, carry a create out just before they end it.
func TestCreateThatIsCarriedOutAtTheEndOfItsSessionLeavesNoNode(t *testing.T) {
	for phase := range 20 {
		t.Run(fmt.Sprint("phase ", phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := virtual(t, framework.WithSessionTimeout(4*time.Second), framework.WithExpirationPercent(50),
					framework.WithRetryPolicy(retry.Never()))
				session, err := client.Session(t.Context())
				require.NoError(t, err)
				time.Sleep(10*time.Second + time.Duration(phase)*100*time.Millisecond) // virtual time: when in a tick the create is sent is what is varied
				gate := server.Block(zktest.OnOp(zktest.OpCreate))
				result := make(chan error, 1)
				go func() {
					_, err := client.Create(t.Context(), "/n", nil, framework.Protected())
					result <- err
				}()
				<-gate.Arrived()
				server.RefuseConnections(true)
				server.CutConnections()
				cut := time.Now()
				require.Error(t, <-result)
				<-session.Done()
				over := time.Now()
				server.RefuseConnections(false)
				time.Sleep(session.Timeout() + 100*time.Millisecond) // virtual time, in which the client looks for the node
				gate.Open()
				time.Sleep(time.Minute) // virtual time, in which it must go
				require.Empty(t, server.Tree(), "over for us after %v", over.Sub(cut))
			})
		})
	}
}
