package zktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMessagesStayInOrderWhenALinkIsNoLongerBlocked has one message arrive at the instant at which the block ends.
func TestMessagesStayInOrderWhenALinkIsNoLongerBlocked(t *testing.T) {
	c := &Cluster{agenda: newAgenda()}
	c.cfg.cluster.syncTimeout = time.Minute
	l := &link{
		term:     &term{cluster: c, leader: &member{Server: &Server{}}},
		follower: &member{Server: &Server{}, apart: true},
	}
	l.look()
	var order []int
	message := func(n int) { l.send(&l.down, func() { order = append(order, n) }) }
	message(1)
	c.agenda.settle()
	require.Empty(t, order, "the link is blocked")
	l.follower.apart = false
	message(2)
	l.look()
	c.agenda.settle()
	require.Equal(t, []int{1, 2}, order)
}
