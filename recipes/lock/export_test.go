package lock

// InLine is how many wait in memory for a node to be passed on.
func (q *Queue) InLine() int {
	q.line.mu.Lock()
	defer q.line.mu.Unlock()
	return q.line.waiting.Len()
}

// ReleaseWhileLost is Release, with a loss just after it was decided that the node is passed on. It reports whether
// it was.
func (h *Hold) ReleaseWhileLost(cause error) bool {
	t := h.tenure
	heir := t.heir()
	if heir == nil {
		return false
	}
	t.lose(cause)
	t.finish(ErrReleased)
	heir <- t.place
	return true
}

// Alone reports whether nobody else is in the queue, for all that we have been told.
func (h *Hold) Alone() bool {
	watch := h.tenure.place.alone
	return watch != nil && !isClosed(watch.Done())
}
