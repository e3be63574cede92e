package wait

import (
	"math/rand/v2"
	"time"
)

// Pauses are the pauses between retries. They double from First to Last, which must be positive.
// Each is shortened at random, by up to half, so that many clients do not retry at the same
// instants.
//
// It is not safe for concurrent use.
type Pauses struct {
	First, Last time.Duration

	next time.Duration // before shortening; 0: First
}

// Next returns the next pause.
func (p *Pauses) Next() time.Duration {
	d := min(max(p.next, p.First), p.Last)
	p.next = d
	if d < p.Last {
		p.next = d + min(d, p.Last-d) // 2*d could be more than a Duration holds
	}
	return d - rand.N(d/2+1)
}

// Reset restarts with First.
func (p *Pauses) Reset() { p.next = 0 }
