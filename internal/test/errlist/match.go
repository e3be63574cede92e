package errlist

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/conn"
)

// Find returns an error if the list of a function has no bullet for err. Of a joined error, each
// part needs a bullet. Each exported error value of this module that err wraps must have one, too,
// unless a value with a bullet wraps it, or it wraps such a value.
//
// own are errors that functions of the test have returned: "the error of f" describes them.
func Find(f Function, err error, own ...error) error {
	if err == nil {
		return nil
	}
	m := matcher{own: own}
	for _, text := range f.list.Bullets {
		b := read(text)
		m.kinds = append(m.kinds, b.kinds...)
		for to, names := range map[*[]string][]string{&m.values: b.names, &m.wrapped: b.wrapped} {
			for _, name := range names {
				v, e := f.value(name)
				if e != nil {
					return fmt.Errorf("%s: %w", f.Name, e)
				}
				*to = append(*to, v)
			}
		}
	}
	for _, part := range parts(err) {
		if !m.anywhere(part) {
			return fmt.Errorf("%s: no bullet for %q", f.Name, part)
		}
		if missing := m.missing(part, false); missing != "" {
			return fmt.Errorf("%s: no bullet for %s, which %q wraps", f.Name, missing, part)
		}
	}
	return nil
}

// bullet is what the text of a bullet says.
type bullet struct {
	names, wrapped []string
	kinds          []func(err error, own []error) bool
}

var bullets sync.Map // of a text: the *bullet

// read reads each text once: tests of faults look thousands of errors up, and under -race regular
// expressions are slow.
func read(text string) *bullet {
	if b, found := bullets.Load(text); found {
		return b.(*bullet)
	}
	b := &bullet{}
	b.names, b.wrapped = Names(text)
	for _, k := range kinds {
		if k.words.MatchString(text) {
			b.kinds = append(b.kinds, k.is)
		}
	}
	bullets.Store(text, b)
	return b
}

// matcher knows the errors of a list.
type matcher struct {
	values  []string // texts of error values, or "type " and the name of an error type
	wrapped []string // values that others wrap
	kinds   []func(err error, own []error) bool
	own     []error
}

// here reports whether the list has err itself.
func (m matcher) here(err error) bool {
	typ := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
	return slices.Contains(m.values, err.Error()) || slices.Contains(m.values, "type "+typ) ||
		slices.ContainsFunc(m.kinds, func(is func(error, []error) bool) bool { return is(err, m.own) })
}

// anywhere reports whether the list has err or an error that it wraps.
func (m matcher) anywhere(err error) bool {
	return m.here(err) || slices.ContainsFunc(unwrap(err), m.anywhere)
}

// missing returns the name of a value of this module that err wraps and the list lacks.
func (m matcher) missing(err error, covered bool) string {
	covered = covered || m.here(err) || slices.Contains(m.wrapped, err.Error())
	if name := nameOf(err); name != "" && !covered && !m.anywhere(err) {
		return name
	}
	for _, inner := range unwrap(err) {
		if name := m.missing(inner, covered && nameOf(err) != ""); name != "" {
			return name
		}
	}
	return ""
}

// parts returns the errors that were joined: each has a reason of its own.
func parts(err error) []error {
	for at := err; at != nil; {
		switch typ := fmt.Sprintf("%T", at); {
		case typ == "*operr.joined", typ == "*errors.joinError":
			var all []error
			for _, inner := range unwrap(at) {
				all = append(all, parts(inner)...)
			}
			return all
		}
		inner := unwrap(at)
		if len(inner) != 1 {
			break
		}
		at = inner[0]
	}
	return []error{err}
}

func unwrap(err error) (all []error) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		all = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		all = slices.Clone(e.Unwrap())
	}
	return slices.DeleteFunc(all, func(err error) bool { return err == nil })
}

func isContext(err error, _ []error) bool {
	return err == context.Canceled || err == context.DeadlineExceeded
}

func isOwn(err error, own []error) bool {
	return slices.ContainsFunc(own, func(one error) bool {
		return reflect.TypeOf(one).Comparable() && err == one
	})
}

func isLoss(err error, _ []error) bool { return err == framework.ErrLost }

// refusals are the errors by which a server refuses a request for a reason that is not in the tree.
var refusals = []error{
	zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrAPIError, zk.ErrBadArguments,
	zk.ErrSessionMoved, zk.ErrNoChildrenForEphemerals, zk.ErrReconfigDisabled,
}

func isRefusal(err error, _ []error) bool {
	var code conn.ServerError
	return slices.Contains(refusals, err) || errors.As(err, &code)
}
