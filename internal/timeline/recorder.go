// Package timeline records what servers and clients do in a test, and draws it: as a page
// ([Recorder.WriteHTML]) and as a picture ([Recorder.WriteSVG]).
package timeline

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind is what an entry describes.
type Kind string

// The kinds of entries. Bands and bars have a duration, the others are instants.
const (
	Request Kind = "request" // a request, from its arrival to its reply
	Watch   Kind = "watch"   // an event that was sent
	Session Kind = "session" // a bar: a session, from its creation to its end
	Link    Kind = "link"    // a bar: a session's connection to a server
	Fault   Kind = "fault"   // a band: a fault in force at a server
	Act     Kind = "act"     // what the test did
	Leader  Kind = "leader"  // a bar: the term of a cluster's leader
	State   Kind = "state"   // a client's connection state
	Wait    Kind = "wait"    // a bar: an acquire
	Hold    Kind = "hold"    // a bar: a hold of a lock, a lease or a term
)

// Entry is one thing that happened. Texts may come from any client, and are cut to [MaxText] bytes.
type Entry struct {
	At      time.Duration `json:"at"`  // since the recorder was created
	Dur     time.Duration `json:"dur"` // Open while it lasts
	Kind    Kind          `json:"kind"`
	Lane    string        `json:"lane"`              // a server or a client; a session without a client has none
	Server  string        `json:"server,omitempty"`  // of a request, an event or a link
	Session string        `json:"session,omitempty"` // as real servers print it
	What    string        `json:"what"`              // operation, event, fault, lock's path
	Path    string        `json:"path,omitempty"`
	Result  string        `json:"result,omitempty"` // outcome of a request, or why another entry ended
	Bad     bool          `json:"bad,omitempty"`    // an error or a loss
	Zxid    int64         `json:"zxid,omitempty"`
}

// Open is the duration of an entry that has not ended.
const Open time.Duration = -1

// MaxText is the largest size of a string in an entry, in bytes.
const MaxText = 300

// Recorder keeps the newest entries. A nil Recorder keeps none. All methods are safe for concurrent
// use, and take no other lock.
type Recorder struct {
	start time.Time

	mu       sync.Mutex                   // guards what follows
	moments  ring                         // requests and events, which are many
	lasting  ring                         // the rest
	sessions map[int64]*Entry             // sessions that have not ended
	links    map[int64]*Entry             // of these
	owners   map[string]string            // clients of sessions
	leaders  map[string]*Entry            // by server
	faults   map[string]map[string]func() // by server and text: ends the band
}

// DefaultSize is the number of entries that a recorder keeps.
const DefaultSize = 50_000

// New returns a recorder of at most size requests and events, and as many other entries.
func New(size int) *Recorder {
	return &Recorder{
		start:    time.Now(),
		moments:  ring{most: size},
		lasting:  ring{most: size},
		sessions: make(map[int64]*Entry),
		links:    make(map[int64]*Entry),
		owners:   make(map[string]string),
		leaders:  make(map[string]*Entry),
		faults:   make(map[string]map[string]func()),
	}
}

// Of returns the recorder of a zktest.Timeline. Package zktest sets it.
var Of func(any) *Recorder

// Add records an instant, or something that began at a time and has ended now.
func (r *Recorder) Add(began time.Time, e Entry) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At, e.Dur = began.Sub(r.start), time.Since(began)
	r.add(e)
}

// Put records an entry with its times, from a record that was made elsewhere.
func (r *Recorder) Put(e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(e)
}

// Begin records something that lasts, and returns the function that ends it. The result of the
// first call stays.
func (r *Recorder) Begin(e Entry) (end func(result string, bad bool)) {
	if r == nil {
		return func(string, bool) {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At, e.Dur = time.Since(r.start), Open
	entry := r.add(e)
	return func(result string, bad bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.end(entry, result, bad)
	}
}

// add keeps an entry. Requests and events do not displace what lasts.
func (r *Recorder) add(e Entry) *Entry {
	if e.Lane == "" && e.Session != "" {
		e.Lane = r.owners[e.Session]
	}
	for _, text := range []*string{&e.Lane, &e.What, &e.Path, &e.Result} {
		*text = cut(*text)
	}
	if e.Kind == Request || e.Kind == Watch {
		return r.moments.add(&e)
	}
	return r.lasting.add(&e)
}

// ring keeps the newest entries.
type ring struct {
	entries []*Entry
	most    int
	oldest  int // index, once there are most entries
	dropped int
}

func (r *ring) add(e *Entry) *Entry {
	if len(r.entries) < r.most {
		r.entries = append(r.entries, e)
		return e
	}
	r.entries[r.oldest] = e
	r.oldest = (r.oldest + 1) % r.most
	r.dropped++
	return e
}

func (r *Recorder) end(e *Entry, result string, bad bool) {
	if e == nil || e.Dur != Open {
		return
	}
	e.Dur, e.Result, e.Bad = time.Since(r.start)-e.At, cut(result), bad
}

// cut returns the text on one line, without unprintable characters, and not too long.
func cut(text string) string {
	var b strings.Builder
	for _, r := range text {
		piece := string(r) // U+FFFD for an invalid byte
		if !strconv.IsPrint(r) {
			quoted := strconv.QuoteRune(r)
			piece = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(piece)+len("…") > MaxText {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
	}
	return b.String()
}

// SessionText returns a session's id as real servers print it.
func SessionText(id int64) string {
	if id == 0 {
		return ""
	}
	return "0x" + strconv.FormatUint(uint64(id), 16)
}

// Connected records that a server serves a session, which it has created or resumed.
func (r *Recorder) Connected(server string, id int64, timeout time.Duration) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, session := time.Since(r.start), SessionText(id)
	if r.sessions[id] == nil {
		r.sessions[id] = r.add(Entry{At: at, Dur: Open, Kind: Session, Session: session, What: "session of " + timeout.String()})
	}
	r.end(r.links[id], "moved", false)
	r.links[id] = r.add(Entry{At: at, Dur: Open, Kind: Link, Server: server, Session: session, What: "connected to " + server})
}

// Disconnected records that a session has lost its connection.
func (r *Recorder) Disconnected(id int64, why string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(r.links[id], why, true)
	delete(r.links, id)
}

// Ended records that a session was closed by its client, or has expired. In a cluster each member
// reports it, and the first one counts.
func (r *Recorder) Ended(id, zxid int64, expired bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	why := "closed"
	if expired {
		why = "expired"
	}
	if e := r.sessions[id]; e != nil {
		e.Zxid = zxid
		r.end(e, why, expired)
	}
	r.end(r.links[id], why, expired)
	delete(r.sessions, id)
	delete(r.links, id)
}

// Owns records that a client has a session. Entries of the session move to the client's lane.
func (r *Recorder) Owns(client string, id int64) {
	if r == nil || id == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	session := SessionText(id)
	if r.owners[session] != "" {
		return
	}
	client = cut(client)
	r.owners[session] = client
	for _, e := range slices.Concat(r.moments.entries, r.lasting.entries) {
		if e.Session == session && e.Lane == "" {
			e.Lane = client
		}
	}
}

// Faults records the faults in force at a server: new ones begin, and missing ones end.
func (r *Recorder) Faults(server string, inForce []string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.faults[server]
	if len(before) == 0 && len(inForce) == 0 {
		return
	}
	now := make(map[string]func(), len(inForce))
	for _, text := range inForce {
		now[text] = before[text]
		if now[text] == nil {
			e := r.add(Entry{At: time.Since(r.start), Dur: Open, Kind: Fault, Lane: server, What: text})
			now[text] = func() { r.end(e, "", false) }
		}
	}
	for text, end := range before {
		if now[text] == nil {
			end()
		}
	}
	r.faults[server] = now
}

// Leads records that a server begins to lead its cluster, or leads no more.
func (r *Recorder) Leads(server string, leads bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(r.leaders[server], "", false)
	delete(r.leaders, server)
	if leads {
		r.leaders[server] = r.add(Entry{At: time.Since(r.start), Dur: Open, Kind: Leader, Lane: server, What: "leads"})
	}
}

// Entries returns copies of the entries, sorted by their beginning, and the number of older entries
// that were dropped.
func (r *Recorder) Entries() (entries []Entry, dropped int) {
	if r == nil {
		return nil, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Concat(r.lasting.entries, r.moments.entries) {
		entries = append(entries, *e)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.At, b.At) })
	return entries, r.moments.dropped + r.lasting.dropped
}

// now returns the end of the record: now, or the last end of entries that were put.
func (r *Recorder) now(entries []Entry) time.Duration {
	if r == nil {
		return 0
	}
	now := time.Since(r.start)
	for _, e := range entries {
		now = max(now, e.At+max(e.Dur, 0))
	}
	return now
}

// Last returns the last n requests and what is held, one per line, for the output of a failed test.
func (r *Recorder) Last(n int) []string {
	entries, _ := r.Entries()
	var lines, held []string
	for _, e := range entries {
		switch {
		case e.Kind == Request || e.Kind == Watch || e.Kind == Act:
			lines = append(lines, e.String())
		case (e.Kind == Hold || e.Kind == Wait || e.Kind == Fault) && e.Dur == Open:
			held = append(held, e.String())
		}
	}
	return append(lines[max(0, len(lines)-n):], held...)
}

// String returns an entry as one line.
func (e Entry) String() string {
	var b strings.Builder
	b.WriteString(strconv.FormatFloat(e.At.Seconds(), 'f', 3, 64) + "s ")
	for _, word := range []string{e.Lane, e.Session, string(e.Kind), e.What, e.Path} {
		if word != "" {
			b.WriteString(word + " ")
		}
	}
	switch {
	case e.Result != "":
		b.WriteString("-> " + e.Result)
	case e.Dur == Open:
		b.WriteString("-> not ended")
	}
	return strings.TrimSpace(b.String())
}

// lanes returns the names of the lanes in order: servers, clients, then sessions without a client.
func lanes(entries []Entry) []string {
	servers, clients, sessions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		switch {
		case e.Kind == Fault || e.Kind == Leader || e.Kind == Act:
			servers[e.Lane] = true
		case e.Lane != "":
			clients[e.Lane] = true
		case e.Session != "":
			sessions[e.Session] = true
		}
	}
	return slices.Concat(slices.Sorted(maps.Keys(servers)), slices.Sorted(maps.Keys(clients)), slices.Sorted(maps.Keys(sessions)))
}
