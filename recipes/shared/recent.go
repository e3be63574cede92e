package shared

import (
	"sync"
	"time"
)

const (
	inARow  = 2
	aMoment = 20 * time.Millisecond
)

// recent is what the Updates of a Value have written in a row: nobody else has written in between, and each came a moment after the one
// before. Then the next one need not read.
type recent struct {
	mu      sync.Mutex // guards what follows
	writes  int        // in the row; 0: data are not used
	data    []byte     // of the last one
	version Version
	until   time.Time
	newer   int // how often something was shown that may be newer
}

// last returns the last write, if there have been enough; otherwise the zero Version.
func (r *recent) last() (data []byte, version Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes >= inARow && time.Now().Before(r.until) {
		return r.data, r.version
	}
	return nil, Version{}
}

// shown ends the row if a version that was shown to somebody may be newer: what is older is not shown after it.
func (r *recent) shown(version Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes == 0 || version.mzxid > r.version.mzxid || !version.Exists() {
		r.writes = 0
		r.newer++
	}
}

// begin is called before a write.
func (r *recent) begin() (newer int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newer
}

// done is called after a write that began with newer.
func (r *recent) done(newer int, data []byte, version Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version.mzxid < r.version.mzxid {
		return // a later one was first here
	}
	if r.newer != newer || !time.Now().Before(r.until) {
		r.writes = 0
	}
	r.writes++
	r.data, r.version, r.until = data, version, time.Now().Add(aMoment)
}
