package wait

import "sync"

// Closed reports whether c is closed. It does not wait. Nothing may be sent on c.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Signal says that there is something to do. Several calls of Raise before the next receive from C count as one.
// The zero Signal is ready. All methods are safe for concurrent use. It must not be copied.
type Signal struct {
	once sync.Once
	c    chan struct{}
}

// Raise has one receive from C succeed, now or later. It does not block.
func (s *Signal) Raise() {
	select {
	case s.channel() <- struct{}{}:
	default:
	}
}

// C is the channel from which each signal is received once, by one receiver. It is always the same channel.
func (s *Signal) C() <-chan struct{} { return s.channel() }

func (s *Signal) channel() chan struct{} {
	s.once.Do(func() { s.c = make(chan struct{}, 1) })
	return s.c
}
