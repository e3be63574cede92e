package zktest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest"
)

// TestVersionsDiffer has each row of the table at Version on a server of each version.
// TestSameAsARealServer compares them with real ones.
func TestVersionsDiffer(t *testing.T) {
	for _, row := range []struct {
		name     string
		v38, v39 string // the results
		see      func(c versionCase) string
	}{
		{"zxid of an event", "[event 3 /a zxid -1]", "[event 3 /a zxid +1]", func(c versionCase) string {
			c.read(opGetData, "/a", true)
			c.code(opSetData, setBody("/a", "x"))
			return c.events()
		}},
		{"zxid of an event after setWatches", "[event 3 /a zxid -1]", "[event 3 /a zxid -1]", func(c versionCase) string {
			c.code(opSetData, setBody("/a", "x"))
			c.code(opSetWatches, *new(buffer).long(c.zxid).texts("/a").texts().texts())
			return c.events()
		}},
		{"several watches on a path", "once", "once, persistent", func(c versionCase) string {
			c.code(opAddWatch, addWatch("/a", 0))
			c.read(opGetData, "/a", true)
			c.code(opSetData, setBody("/a", "x"))
			c.code(opSetData, setBody("/a", "y"))
			return []string{"nothing", "once", "once, persistent"}[len(c.raw.events)]
		}},
		{"list of children below a recursive watch", "[event 1 /a/b zxid -1]", "[event 1 /a/b zxid +1 event 4 /a zxid +1]", func(c versionCase) string {
			c.read(opGetChildren, "/a", true)
			c.code(opAddWatch, addWatch("/a", 1))
			c.code(opCreate, create("/a/b", 0))
			return c.events()
		}},
		{"persistent watches removed alone", "-5 -5", "0 -121", func(c versionCase) string {
			c.code(opAddWatch, addWatch("/a", 0))
			return fmt.Sprint(c.code(opRemoveWatches, addWatch("/a", 4)), " ", c.code(opRemoveWatches, addWatch("/a", 5)))
		}},
		{"watches for data removed", "0", "-121", func(c versionCase) string {
			c.code(opAddWatch, addWatch("/a", 0))
			return fmt.Sprint(c.code(opRemoveWatches, addWatch("/a", 2)))
		}},
		{"exists of a node that may not be read", "0", "-102", func(c versionCase) string {
			c.hide("/a")
			return fmt.Sprint(c.read(opExists, "/a", false))
		}},
		{"change of a node that may not be read, in setWatches", "[event 1 /a zxid -1]", "[]", func(c versionCase) string {
			c.hide("/a")
			c.code(opSetWatches, *new(buffer).long(c.zxid).texts().texts("/a").texts())
			return c.events()
		}},
		{"multi with a bad mode", "0", "-5", func(c versionCase) string { return fmt.Sprint(c.multi(part(opCreate, create("/m", 9)))) }},
		{"multi with the mode of a TTL node", "0", "-5", func(c versionCase) string {
			fails := part(opCreate, create("/a", 0))
			return fmt.Sprint(c.multi(fails, part(opCreate, create("/m", 5))))
		}},
		{"multi with null for an access list", "0, zxid +1", "-5, zxid +0", func(c versionCase) string {
			return fmt.Sprintf("%d, zxid %s", c.multi(part(opCreate, *ptr(pathOf("/m")).bytes(nil).int(-1).int(0))), c.after())
		}},
		{"multi with create2", "[1 0]", "[15 0]", func(c versionCase) string {
			r := c.call(opMulti, multiOf(part(opCreate2, create("/m", 0))))
			result := &cursor{b: r.body}
			kind, _, code := result.int(), result.bool(), result.int()
			return fmt.Sprint([]int32{kind, code})
		}},
		{"multi with createContainer for another mode", "/m \"\"\n", "/m \"\" container\n", func(c versionCase) string {
			c.multi(part(opCreateContainer, create("/m", 0)))
			return strings.TrimPrefix(c.server.Tree(), "/a \"\"\n")
		}},
		{"a transaction that cannot be read", "-5, zxid +1", "-5, zxid +0", func(c versionCase) string {
			return fmt.Sprintf("%d, zxid %s", c.code(opSetData, pathOf("/a")), c.after())
		}},
		{"a multi that cannot be read", "-5, zxid +1", "-5, zxid +1", func(c versionCase) string {
			return fmt.Sprintf("%d, zxid %s", c.multi(part(77, nil)), c.after())
		}},
		{"IPv6 in an access list", "-114", "0", func(c versionCase) string {
			return fmt.Sprint(c.code(opCreate, creation("/m", nil, 31, "ip", "2001:db8::/32", 0)))
		}},
		{"deleteContainer", "-8", "the connection is cut", func(c versionCase) string {
			r, err := c.raw.call(opDeleteContainer, pathOf("/a"))
			if err != nil {
				return "the connection is cut"
			}
			return fmt.Sprint(r.code)
		}},
	} {
		for version, want := range map[string]string{"3.8.0": row.v38, "3.9.6": row.v39} {
			t.Run(fmt.Sprintf("%s in %s", row.name, version), func(t *testing.T) {
				require.Equal(t, want, row.see(newVersionCase(t, zktest.WithVersion(version))))
			})
		}
	}
}

// versionCase is a new server with a node /a, and a client of it.
type versionCase struct {
	t      *testing.T
	server *zktest.Server
	raw    *rawClient
	zxid   int64 // of the creation of /a
}

func newVersionCase(t *testing.T, opts ...zktest.Option) versionCase {
	s := zktest.NewServer(t, append(opts, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))...)
	c := versionCase{t: t, server: s, raw: raw(t, s, nil)}
	c.zxid = c.call(opCreate, create("/a", 0)).zxid
	c.raw.printZxid = c.relative
	return c
}

func (c versionCase) relative(zxid int64) string {
	if zxid < 0 {
		return fmt.Sprint(zxid)
	}
	return fmt.Sprintf("%+d", zxid-c.zxid)
}

func (c versionCase) call(op int32, body buffer) reply {
	c.t.Helper()
	return ask(c.t, c.raw, op, body)
}

func (c versionCase) code(op int32, body buffer) int32 { return c.call(op, body).code }

func (c versionCase) read(op int32, path string, watch bool) int32 {
	return c.code(op, watched(path, watch))
}

// hide gives a node an access list that keeps the client from reading it.
func (c versionCase) hide(path string) {
	body := pathOf(path)
	require.Zero(c.t, c.code(opSetACL, *body.int(1).int(31).text("digest").text("some:body").int(-1)))
}

func (c versionCase) multi(parts ...buffer) int32 { return c.code(opMulti, multiOf(parts...)) }

// after is the server's zxid.
func (c versionCase) after() string { return c.relative(c.call(opPing, nil).zxid) }

// events returns the events received so far.
func (c versionCase) events() string {
	c.call(opPing, nil)
	return fmt.Sprint(c.raw.events)
}
