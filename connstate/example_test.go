package connstate_test

import (
	"fmt"

	"github.com/gocurator/curator/connstate"
)

// Under LostEndsHold a holder continues through a lost connection, until the session is lost as
// well. SuspendedEndsHold cancels the hold at once.
func ExampleErrorPolicy() {
	for _, s := range []connstate.State{connstate.Suspended, connstate.Lost} {
		fmt.Printf("%v: Standard %v, Session %v\n", s, connstate.SuspendedEndsHold.IsError(s), connstate.LostEndsHold.IsError(s))
	}
	// Output:
	// suspended: Standard true, Session false
	// lost: Standard true, Session true
}
