package once

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// recordName is the name of the record node. Curator for Java and kazoo sort it behind all nodes of
// a lock.
const recordName = "once"

// Limits of what a record contains, in bytes.
const (
	maxKey   = 255
	maxBy    = 100
	maxEntry = 2*maxKey + 2*maxBy + 116 // in JSON, with an id and a time
	maxHead  = 64                       // in JSON, around the entries
)

// record is the content of the record node.
type record struct {
	n    int64 // the number of successes since the node was created
	done []entry
	rest map[string]json.RawMessage // fields that this version does not know
	data []byte                     // as read
	stat *zk.Stat                   // nil: there is no node
}

// entry is one success.
type entry struct {
	raw json.RawMessage
	entryFields
}

// entryFields are the fields of an entry. An entry without a key was forgotten, or is unknown to
// this version: it is kept, and matches no key.
type entryFields struct {
	Key string    `json:"key,omitempty"`
	By  string    `json:"by"`
	ID  string    `json:"id"` // the name of the lock's node
	At  time.Time `json:"at,omitzero"`
}

// parse returns the content of a record node. It returns ErrBadValue for data of another program.
func parse(data []byte, stat *zk.Stat) (*record, error) {
	r := &record{data: data, stat: stat}
	var list []json.RawMessage
	err := json.Unmarshal(data, &r.rest)
	if err == nil {
		if err = json.Unmarshal(r.rest["n"], &r.n); err == nil {
			err = json.Unmarshal(r.rest["done"], &list)
		}
	}
	if err != nil || r.n < 0 || list == nil {
		return nil, fmt.Errorf("%w: node %q contains %.80q", ErrBadValue, recordName, data)
	}
	delete(r.rest, "n")
	delete(r.rest, "done")
	for _, raw := range list {
		e := entry{raw: raw}
		if json.Unmarshal(raw, &e.entryFields) != nil {
			e.entryFields = entryFields{}
		}
		r.done = append(r.done, e)
	}
	return r, nil
}

// encode returns the data of a record node.
func (r *record) encode() []byte {
	known := struct {
		N    int64             `json:"n"`
		Done []json.RawMessage `json:"done"`
	}{r.n, make([]json.RawMessage, len(r.done))}
	for i, e := range r.done {
		known.Done[i] = e.raw
	}
	data := marshal(known)
	if len(r.rest) > 0 {
		data = extended(data, marshal(r.rest)[1:])
	}
	return data
}

// extended returns a JSON object with one more field or several, which end with a brace.
func extended(object, fields []byte) []byte {
	return slices.Concat(object[:len(object)-1], []byte(","), fields)
}

// marshal encodes a value as JSON without escapes for HTML, which would make the data longer. It
// panics for values that have no JSON, which callers do not have.
func marshal(value any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// find returns the entry of a key, or nil.
func (r *record) find(key string) *entry {
	return r.last(func(e *entry) bool { return e.Key == key })
}

// last returns the newest entry that matches, or nil.
func (r *record) last(matches func(e *entry) bool) *entry {
	for i := len(r.done) - 1; i >= 0; i-- {
		if matches(&r.done[i]) {
			return &r.done[i]
		}
	}
	return nil
}

// at returns when an entry was recorded, by the servers' clock: the newest has the time of the
// node's last write, unless a later write has filled it in.
func (r *record) at(e *entry) time.Time {
	switch {
	case !e.At.IsZero():
		return e.At
	case r.stat != nil && e == &r.done[len(r.done)-1]:
		return time.UnixMilli(r.stat.Mtime).UTC()
	}
	return time.Time{}
}

// result returns what a caller is told of an entry.
func (r *record) result(e *entry) Record { return Record{Key: e.Key, By: e.By, At: r.at(e)} }

// newest returns the newest success that this version knows, forgotten or not, or nil.
func (r *record) newest() *entry {
	return r.last(func(e *entry) bool { return e.Key != "" || !e.At.IsZero() })
}

// stamped returns a copy in which the newest success has a time, so that the node can be written
// without losing it.
func (r *record) stamped() *record {
	c := *r
	c.done = slices.Clone(r.done)
	if e := c.newest(); e != nil && e.At.IsZero() && !c.at(e).IsZero() {
		e.stamp(c.at(e))
	}
	return &c
}

// moved returns a copy for another node.
func (r *record) moved() *record {
	c := r.stamped()
	c.rest = maps.Clone(c.rest)
	c.rest["since"] = marshal(r.created())
	return c
}

// created returns when the record was created, by the servers' clock.
func (r *record) created() (at time.Time) {
	if json.Unmarshal(r.rest["since"], &at) == nil {
		return at
	}
	return time.UnixMilli(r.stat.Ctime).UTC()
}

// stamp sets the time of an entry.
func (e *entry) stamp(at time.Time) {
	if e.At.IsZero() {
		e.raw = extended(bytes.TrimSpace(e.raw), append([]byte(`"at":`), append(marshal(at.UTC()), '}')...))
	} else {
		e.raw = marshal(entryFields{e.Key, e.By, e.ID, at.UTC()})
	}
	e.At = at.UTC()
}

// with returns a copy with one more success, and at most keep entries. An entry that is older has
// the same key no more.
func (r *record) with(key, by, id string, keep int) *record {
	c := r.without(key)
	f := entryFields{Key: key, By: by, ID: id}
	c.n++
	c.done = append(c.done, entry{marshal(f), f})
	c.done = c.done[max(0, len(c.done)-keep):]
	return c
}

// without returns a copy without a key. The entry stays: a call whose recording is unknown looks
// for its id.
func (r *record) without(key string) *record {
	c := r.stamped()
	for i, e := range c.done {
		if e.Key == key {
			f := entryFields{By: e.By, ID: e.ID, At: e.At}
			c.done[i] = entry{marshal(f), f}
		}
	}
	return c
}

// lacks reports whether the success number n was certainly not recorded, since no entry has its id:
// the entries are the newest ones.
func (r *record) lacks(n int64) bool { return n > r.n-int64(len(r.done)) }

// checkKey returns ErrBadArgument for a key that cannot be recorded.
func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty key", framework.ErrBadArgument)
	case len(key) > maxKey:
		return fmt.Errorf("%w: key of %d bytes, must be at most %d", framework.ErrBadArgument, len(key), maxKey)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("%w: key %q is not text", framework.ErrBadArgument, key)
	}
	return nil
}

// identity returns the data of a lock's node as text for an entry.
func identity(data []byte) string {
	text := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(string(data), "?"))
	for len(text) > maxBy {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// read reads the record node. A missing node is an empty record.
func (o *Once) read(ctx context.Context, client *framework.Client) (*record, error) {
	data, stat, err := client.Get(ctx, o.node)
	if errors.Is(err, zk.ErrNoNode) {
		return &record{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(data, stat)
}

// readW reads the record node with a watch, which is nil if there is no node.
func (o *Once) readW(ctx context.Context, client *framework.Client) (*record, *framework.Watch, error) {
	data, stat, watch, err := client.GetW(ctx, o.node)
	if errors.Is(err, zk.ErrNoNode) {
		return &record{}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	r, err := parse(data, stat)
	return r, watch, err
}

// set returns the operation that writes a record in the place of r: the node must not have changed.
func (r *record) set(path string, next *record) any {
	if r.stat == nil {
		return &zk.CreateRequest{Path: path, Data: next.encode()}
	}
	return &zk.SetDataRequest{Path: path, Data: next.encode(), Version: r.stat.Version}
}
