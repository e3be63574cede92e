package shared

import (
	"sync"
	"time"
)

const aMoment = 20 * time.Millisecond

// written is the last write of an Update.
type written struct {
	data    []byte
	version Version
	until   time.Time // a moment later
	// inARow reports whether the previous write was also an Update's, moments ago, and nothing
	// newer was shown.
	inARow bool
}

// usable reports whether the next Update need not read.
func (w *written) usable() bool { return w != nil && w.inARow && time.Now().Before(w.until) }

// recent is the last write of a Value's Updates.
type recent struct {
	mu   sync.Mutex // guards what follows
	last *written   // nil: there is none, or something that may be newer was shown
}

// get returns the last write.
func (r *recent) get() *written {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// shown drops the last write if the version that was shown to a caller may be newer: an older one
// is not shown after it.
func (r *recent) shown(version Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && (version.mzxid > r.last.version.mzxid || !version.Exists()) {
		r.last = nil
	}
}

// done is called after a write. before is what get returned before it.
func (r *recent) done(before *written, data []byte, version Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch now := time.Now(); {
	case !version.Exists():
		r.last = nil // which version was written is not known
	case r.last == nil || version.mzxid > r.last.version.mzxid: // or a later write was first here
		inARow := before != nil && before == r.last && now.Before(before.until)
		r.last = &written{data, version, now.Add(aMoment), inARow}
	}
}
