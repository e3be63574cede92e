package wire

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Refusals is a set of the things that a server refuses to clients.
type Refusals int

// The refusals. Sessions are refused as by a Keeper without a leader.
const (
	Connections Refusals = 1 << iota
	Sessions
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

// Route is an address on which a server accepts connections.
type Route struct{ frozen bool }

// Frozen reports whether the traffic of the address is stopped.
func (r *Route) Frozen() bool { return r.frozen }

// Refuse adds what to the server's refusals if refuse is true, and removes it otherwise.
func (s *Server) Refuse(what Refusals, refuse bool) {
	if refuse {
		s.refuses |= what
	} else {
		s.refuses &^= what
	}
}

// Freeze stops the traffic of the given sessions, or of all sessions if none is given.
func (s *Server) Freeze(sessions []int64) {
	s.frozenAll = s.frozenAll || len(sessions) == 0
	for _, id := range sessions {
		s.frozen[id] = true
	}
	s.flowChanged()
}

// Thaw resumes the traffic of the given sessions, or of all sessions if none is given.
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

// FreezeRoute stops or resumes the traffic of an address.
func (s *Server) FreezeRoute(r *Route, frozen bool) {
	r.frozen = frozen
	s.flowChanged()
}

// Pause suspends the server's process and its clock.
func (s *Server) Pause() {
	if s.paused.IsZero() {
		s.paused = time.Now()
		s.flowChanged()
		s.quorum.Paused()
	}
}

// Resume continues the process and its clock. The pause does not count for session timeouts.
func (s *Server) Resume() {
	if s.paused.IsZero() {
		return
	}
	pause := time.Since(s.paused)
	s.paused = time.Time{}
	s.flowChanged()
	s.quorum.Resumed(pause)
}

// LinkFaults describes each fault of the network in force, such as "refuse connections".
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

// SessionText returns a session's id as real servers print it, such as 0x1000.
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

// ClearLinks removes all refusals, freezes of sessions and a pause.
func (s *Server) ClearLinks() {
	s.refuses = 0
	s.Thaw(nil)
	s.Resume()
}
