package wait

import "sync"

// Closed reports whether c is closed. No value may be sent on c.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Signal notifies a goroutine of work. Several calls of Raise before the next receive from C count
// as one.
//
// The zero Signal is ready. All methods are safe for concurrent use. It must not be copied.
type Signal struct {
	once sync.Once
	c    chan struct{}
}

// Raise lets one receive from C succeed, now or later. It does not block.
func (s *Signal) Raise() {
	select {
	case s.channel() <- struct{}{}:
	default:
	}
}

// C returns the channel on which one receiver receives each signal once. It is always the same
// channel.
func (s *Signal) C() <-chan struct{} { return s.channel() }

func (s *Signal) channel() chan struct{} {
	s.once.Do(func() { s.c = make(chan struct{}, 1) })
	return s.c
}
