package wire

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Refusals are what a server refuses to new clients.
type Refusals int

// The refusals.
const (
	Connections Refusals = 1 << iota
	Sessions             // as a Keeper without a leader
	Credentials
)

var refusalNames = map[Refusals]string{
	Connections: "refuse connections", Sessions: "refuse sessions", Credentials: "refuse credentials",
}

// links are the faults of the network between a server and its clients.
type links struct {
	refuses   Refusals
	frozenAll bool
	frozen    map[int64]bool // by session
	paused    time.Time      // since when; zero: not paused
	flow      chan struct{}  // closed and replaced when one of these ends
}

// Route is an address that accepts connections.
type Route struct{ frozen bool }

// Frozen reports whether nothing passes at the address.
func (r *Route) Frozen() bool { return r.frozen }

// Refuse starts or ends refusals.
func (s *Server) Refuse(what Refusals, refuse bool) {
	if refuse {
		s.refuses |= what
	} else {
		s.refuses &^= what
	}
}

// Freeze stops the traffic of these sessions, or of all if none is named.
func (s *Server) Freeze(sessions []int64) {
	s.frozenAll = s.frozenAll || len(sessions) == 0
	for _, id := range sessions {
		s.frozen[id] = true
	}
	s.flowChanged()
}

// Thaw ends Freeze for these sessions, or for all if none is named.
func (s *Server) Thaw(sessions []int64) {
	for _, id := range sessions {
		delete(s.frozen, id)
	}
	if len(sessions) == 0 {
		s.frozenAll = false
		clear(s.frozen)
	}
	s.flowChanged()
}

// FreezeRoute stops the traffic of an address, or ends that.
func (s *Server) FreezeRoute(r *Route, frozen bool) {
	r.frozen = frozen
	s.flowChanged()
}

// Pause stops the process and its clock.
func (s *Server) Pause() {
	if s.paused.IsZero() {
		s.paused = time.Now()
		s.flowChanged()
		s.quorum.Paused()
	}
}

// Resume ends Pause. No session has lost time.
func (s *Server) Resume() {
	if s.paused.IsZero() {
		return
	}
	pause := time.Since(s.paused)
	s.paused = time.Time{}
	s.flowChanged()
	s.quorum.Resumed(pause)
}

// LinkFaults lists the faults of the network in words.
func (s *Server) LinkFaults() []string {
	var list []string
	for what, name := range refusalNames {
		if s.refuses&what != 0 {
			list = append(list, name)
		}
	}
	if s.frozenAll {
		list = append(list, "freeze all sessions")
	}
	for _, id := range slices.Sorted(maps.Keys(s.frozen)) {
		list = append(list, "freeze session "+SessionText(id))
	}
	if !s.paused.IsZero() {
		list = append(list, "pause")
	}
	return list
}

// SessionText is the id of a session as real servers print it.
func SessionText(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

// blocked reports whether nothing passes between the server and c's client now.
func (s *Server) blocked(c *Conn) bool {
	return s.frozenAll || !s.paused.IsZero() || s.frozen[c.peer] || c.route != nil && c.route.frozen
}

// flowChanged wakes goroutines that wait for a link, and counts requests that arrived before.
func (s *Server) flowChanged() {
	for c := range s.conns {
		c.hold(s.blocked(c))
	}
	close(s.flow)
	s.flow = make(chan struct{})
}

// flows waits until something can pass between the server and c's client. It reports false when
// stop or the server is closed before. The lock is not held.
func (s *Server) flows(c *Conn, stop <-chan struct{}) bool {
	for {
		s.Lock()
		blocked, changed := s.blocked(c), s.flow
		s.Unlock()
		if !blocked {
			return true
		}
		select {
		case <-changed:
		case <-stop:
			return false
		case <-s.done:
			return false
		}
	}
}

// lockRunning locks once the server is not paused. It reports false, without the lock, if the
// server is closed before.
func (s *Server) lockRunning() bool {
	for {
		s.Lock()
		if s.paused.IsZero() {
			return true
		}
		changed := s.flow
		s.Unlock()
		select {
		case <-changed:
		case <-s.done:
			return false
		}
	}
}

// ClearLinks ends all faults of the network.
func (s *Server) ClearLinks() {
	s.refuses = 0
	s.Thaw(nil)
	s.Resume()
}
