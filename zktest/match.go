package zktest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/zktest/internal/tree"
	"github.com/gocurator/curator/zktest/internal/wire"
)

// Match selects requests. The zero value selects every request, except housekeeping.
//
// Housekeeping requests are handshakes, pings, authentication, setWatches and closeSession. Clients
// send them on their own at unpredictable times. They are selected only if an [OnOp] names them.
type Match struct {
	text    string // empty: every request
	selects func(Request) bool
}

// String describes the match, such as "create2 and path /a".
func (m Match) String() string { return m.text }

// On selects requests for which f returns true. The server calls f concurrently and without a lock.
func On(f func(Request) bool) Match { return Match{"a function", f} }

// OnOp selects requests of these kinds. It panics if a kind is unknown. Kinds have the names of
// ZooKeeper's documentation: create, create2, createContainer, createTTL, delete, exists, getData,
// setData, getACL, setACL, getChildren, getChildren2, getAllChildrenNumber, getEphemerals, multi,
// multiRead, check (in a multi), sync, addWatch, removeWatches, checkWatches, setWatches,
// setWatches2, reconfig, auth, sasl, whoAmI, ping, closeSession, and connect for the handshake.
func OnOp(kinds ...string) Match {
	if err := tree.CheckOps(kinds); err != nil {
		panic(err)
	}
	return Match{strings.Join(kinds, " or "), func(r Request) bool {
		picked := slices.Contains(kinds, r.Op)
		if picked && r.named != nil {
			*r.named = true
		}
		return picked
	}}
}

// OnCreate selects all requests that create a node of any kind. It does not select a multi.
func OnCreate() Match {
	return Match{"any create", func(r Request) bool { return tree.Creates(r.op) }}
}

// OnPath selects requests whose path has this prefix, and multis that contain such a request.
func OnPath(prefix string) Match {
	begins := func(r Request) bool { return strings.HasPrefix(r.Path, prefix) }
	return Match{"path " + prefix, func(r Request) bool { return begins(r) || slices.ContainsFunc(r.Parts, begins) }}
}

// OnSession selects requests of one session.
func OnSession(id int64) Match {
	return Match{"session " + wire.SessionText(id), func(r Request) bool { return r.Session == id }}
}

// all matches requests that all matches select.
func all(matches []Match) Match {
	if len(matches) == 1 {
		return matches[0]
	}
	var texts []string
	for _, m := range matches {
		if m.text != "" {
			texts = append(texts, m.text)
		}
	}
	return Match{strings.Join(texts, " and "), func(r Request) bool {
		for _, m := range matches {
			if m.selects != nil && !m.selects(r) {
				return false
			}
		}
		return true
	}}
}

// picks reports whether m selects r, and may.
func (m Match) picks(r Request) bool {
	named := !slices.Contains(housekeeping, r.op)
	r.named = &named
	return (m.selects == nil || m.selects(r)) && named
}

// fault describes a fault with the requests that it applies to.
func (m Match) fault(what string) string {
	if m.text == "" {
		return what
	}
	return fmt.Sprintf("%s of %s", what, m.text)
}
