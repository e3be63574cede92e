package view

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/wait"
)

// newView is a view of /lock that can be asked. Its first list has the children called listed, with
// the numbers from 0 on.
func newView(listed ...string) *View {
	v := &View{
		path:     "/lock",
		ready:    make(chan struct{}),
		done:     make(chan struct{}),
		children: make(map[string]*child),
		rankings: make(map[Order]*ranking),
		ended:    func(*View, error) {},
	}
	n := int32(len(listed))
	_ = v.list(listed, &zk.Stat{Cversion: n, NumChildren: n}, nil)
	v.begin()
	return v
}

func (v *View) created(name string) {
	v.event(zk.Event{Type: zk.EventNodeCreated, Path: "/lock/" + name})
}

// byName sorts all children by their names.
type byName struct{}

func (byName) SortKey(child string) (string, bool) { return child, true }

func TestNamesFollowTheEvents(t *testing.T) {
	v := newView("c-0000000000")
	v.created("a-0000000001")
	names := func() []string {
		names, ok, err := v.Names(byName{})
		require.True(t, ok)
		require.NoError(t, err)
		return names
	}
	require.Equal(t, []string{"a-0000000001", "c-0000000000"}, names())
	v.created("b-0000000002")
	v.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/lock/c-0000000000"})
	require.Equal(t, []string{"a-0000000001", "b-0000000002"}, names())
	v.created("z-2147483647")
	_, ok, err := v.Names(byName{})
	require.True(t, ok)
	require.ErrorIs(t, err, ErrSequenceExhausted)
	v.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/lock/z-2147483647"})
	require.Equal(t, []string{"a-0000000001", "b-0000000002"}, names())

	v.end(nil)
	_, ok, _ = v.Names(byName{})
	require.False(t, ok, "an ended view says nothing")
}

// TestAViewIsNotAskedAfterItsConnection has its goroutine not notice yet: on the next connection
// something newer may have been read.
func TestAViewIsNotAskedAfterItsConnection(t *testing.T) {
	v := newView("a-0000000000")
	down := make(chan struct{})
	v.down = down
	_, ok, err := v.Names(byName{})
	require.True(t, ok)
	require.NoError(t, err)
	require.True(t, v.Admit(&member{name: "a-0000000000"}))
	close(down)
	_, ok, _ = v.Names(byName{})
	require.False(t, ok)
	require.False(t, v.Admit(&member{name: "a-0000000000"}))
}

// TestAViewKnowsItsConnection, so that it is not asked after it.
func TestAViewKnowsItsConnection(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		c := w.Client()
		v := Of(c).Get(c, testbed.Session(t, c), "/lock", true, 0)
		require.NoError(t, v.Await(t.Context()))
		require.False(t, wait.Closed(v.down))
		w.Server.CutConnections()
		testbed.Receive(t, v.down, "the end of the connection")
	})
}

// member is a node of ours that counts what it is notified of.
type member struct {
	name                   string
	joined, deleted, ended int
}

func (m *member) Name() string { return m.name }
func (m *member) Order() Order { return byName{} }
func (m *member) Joined()      { m.joined++ }
func (m *member) Deleted()     { m.deleted++ }
func (m *member) ViewEnded()   { m.ended++ }

// otherOrder is one of many orders to which no child belongs.
type otherOrder int

func (otherOrder) SortKey(string) (string, bool) { return "", false }

// TestMemberIsNotifiedWhateverElseIsAsked of a view: what it keeps for other orders is limited.
func TestMemberIsNotifiedWhateverElseIsAsked(t *testing.T) {
	v := newView()
	m := &member{name: "a-0000000000"}
	v.created(m.name)
	require.True(t, v.Admit(m))
	for n := range otherOrder(100) {
		_, ok, err := v.Names(n)
		require.True(t, ok)
		require.NoError(t, err)
	}
	require.Len(t, v.rankings, 2, "that of the member, and the last one")
	v.created("b-0000000001")
	require.Equal(t, 1, m.joined)
	v.created("c-0000000002")
	require.Equal(t, 1, m.joined, "it was not alone any more")
	v.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/lock/" + m.name})
	require.Equal(t, 1, m.deleted)
	v.end(nil)
	require.Equal(t, 1, m.ended)

	v = newView()
	v.created(m.name)
	require.True(t, v.Admit(m))
	v.Dismiss(m)
	v.created("b-0000000001")
	v.end(nil)
	require.Equal(t, member{name: m.name, joined: 1, deleted: 1, ended: 1}, *m, "it is not a member any more")
}

// fragile sorts by names, and panics for one that a driver did not expect.
type fragile struct{}

func (fragile) SortKey(child string) (string, bool) {
	if child == "odd" {
		panic("odd")
	}
	return child, true
}

type fragileMember struct{ member }

func (m *fragileMember) Order() Order { return fragile{} }

// TestADriverThatPanicsEndsTheView, and nothing else: the queue is listed then, and whoever does
// that gets the panic.
func TestADriverThatPanicsEndsTheView(t *testing.T) {
	v := newView()
	m := &fragileMember{member{name: "a-0000000000"}}
	v.created(m.name)
	require.True(t, v.Admit(m))
	require.PanicsWithValue(t, "odd", func() { v.created("odd") })
	_, ok, err := v.Names(fragile{})
	require.False(t, ok)
	require.NoError(t, err)
	require.Equal(t, 1, m.ended)

	v = newView(m.name, "odd")
	require.PanicsWithValue(t, "odd", func() { v.Admit(m) })
	_, ok, _ = v.Names(byName{})
	require.True(t, ok, "others can ask")
}

// TestWaitEndsOnce: with the first child that is deleted, or with the view.
func TestWaitEndsOnce(t *testing.T) {
	v := newView("a-0000000000", "b-0000000001")
	both := []string{"a-0000000000", "b-0000000001", "b-0000000001"}
	first, known := v.Wait(both)
	require.True(t, known)
	second, _ := v.Wait(both[1:])
	canceled, _ := v.Wait(both)
	v.Cancel(both, canceled)
	v.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/lock/a-0000000000"})
	require.True(t, wait.Closed(first))
	require.False(t, wait.Closed(second))
	gone, known := v.Wait(both)
	require.True(t, known)
	require.Nil(t, gone, "one is deleted already")
	v.end(nil)
	require.True(t, wait.Closed(second))
	require.False(t, wait.Closed(canceled))
	_, known = v.Wait(both[1:])
	require.False(t, known, "the view has ended")
	v.Cancel(both, first)
}

// TestChildOfTheFirstListIsRead has the answers that a read of such a child can have.
func TestChildOfTheFirstListIsRead(t *testing.T) {
	v := newView("a-0000000000", "b-0000000001")
	require.NoError(t, v.unread("a-0000000000", nil))
	require.ErrorIs(t, v.unread("b-0000000001", zk.ErrNoAuth), zk.ErrNoAuth)
	require.ErrorIs(t, v.unread("b-0000000001", zk.ErrNoNode), zk.ErrNoNode, "its end was not reported")
	v.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/lock/b-0000000001"})
	require.NoError(t, v.unread("b-0000000001", zk.ErrNoNode))
}

// TestViewThatIsNotCompleteEnds: some events do not come to a client that may not read the node.
func TestViewThatIsNotCompleteEnds(t *testing.T) {
	path := func(kind zk.EventType) func(v *View) {
		return func(v *View) { v.event(zk.Event{Type: kind, Path: "/lock"}) }
	}
	for name, c := range map[string]struct {
		listed []string
		what   func(v *View)
		ends   bool
	}{
		"the path goes with its children":    {[]string{"a-0000000000"}, path(zk.EventNodeDeleted), true},
		"the path comes with its children":   {[]string{"a-0000000000"}, path(zk.EventNodeCreated), true},
		"the path is written to":             {[]string{"a-0000000000"}, path(zk.EventNodeDataChanged), false},
		"the path goes":                      {nil, path(zk.EventNodeDeleted), false},
		"the path comes":                     {nil, path(zk.EventNodeCreated), false},
		"a child comes twice":                {[]string{"a-0000000000"}, func(v *View) { v.created("a-0000000000") }, true},
		"a child comes after the path's end": {nil, func(v *View) { path(zk.EventNodeDeleted)(v); v.created("a-0000000000") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var why []error
			v := newView(c.listed...)
			v.ended = func(_ *View, e error) { why = append(why, e) }
			c.what(v)
			if c.ends {
				require.Equal(t, []error{errMissed}, why)
			} else {
				require.Empty(t, why)
			}
		})
	}
}
