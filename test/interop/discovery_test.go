package interop

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
)

// load is the payload that is an object in Java.
type load struct {
	K string            `json:"k"`
	N int               `json:"n"`
	L []string          `json:"l"`
	M map[string]string `json:"m"`
}

// service is one in which Java and we have an instance each.
type service[T any] struct {
	registered *discovery.Registration[T]
	watch      *discovery.Watch[T]
	class      string // of our payload, as it is written
	java       string // Java's instance
}

// serve registers an instance of ours, whose payload is written with a class, and watches its
// service.
func serve[T any](
	t *testing.T, ctx context.Context, client *framework.Client, base, kind string, payload T, class string, opts ...discovery.Option,
) *service[T] {
	t.Helper()
	d := testbed.Must(discovery.New[T](client, base, append(opts, discovery.WithEnabledField())...))
	i := discovery.Instance[T]{Name: kind, ID: "go-" + kind, Address: "10.0.0.2", SSLPort: 443, Payload: payload, Disabled: kind == "disabled"}
	if kind == "none" {
		i.URISpec = &discovery.URISpec{} // Java must be able to build a URI of it, which is empty
	}
	r := testbed.Must(d.Register(ctx, i))
	w := testbed.Must(d.Watch(ctx, kind))
	t.Cleanup(func() { w.Close() })
	return &service[T]{r, w, class, ""}
}

// ours is our instance as others read it.
func (s *service[T]) ours() string {
	i := s.registered.Instance()
	i.PayloadClass = s.class
	return show(i)
}

// sees waits until the watch shows these instances.
func (s *service[T]) sees(t *testing.T, ctx context.Context, want ...string) {
	t.Helper()
	var seen []string
	for list, err := range s.watch.Observe(ctx) {
		require.NoError(t, err)
		seen = nil
		for _, i := range list {
			seen = append(seen, show(i))
		}
		if slices.Equal(seen, want) {
			return
		}
	}
	require.Equal(t, want, seen)
}

// show prints an instance with every field, as Discovery.java does.
func show[T any](i discovery.Instance[T]) string {
	var payload strings.Builder
	encoder := json.NewEncoder(&payload)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(i.Payload)
	port := func(n int) string {
		if n == 0 {
			return "null"
		}
		return strconv.Itoa(n)
	}
	return strings.Join([]string{i.Name, i.ID, i.Address, port(i.Port), port(i.SSLPort), i.PayloadClass, strings.TrimSpace(payload.String()),
		strconv.FormatInt(i.RegistrationTime.UnixMilli(), 10), string(i.Type), i.URI(nil), strconv.FormatBool(!i.Disabled)}, "|")
}

// hearsAll waits until Java's queries and caches show these instances or accounts.
func (p *peer) hearsAll(t *testing.T, ctx context.Context, want ...string) {
	t.Helper()
	slices.Sort(want)
	for p.hears(t, ctx, "shows") != strings.Join(want, " ; ") {
	}
}

// javaDiscovery has Java and us register instances in the same services. Both see every field of
// all of them, and their updates, and how they come and go.
func javaDiscovery(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	base := c.path + "-services"
	client := s.client(t)
	none := serve[*load](t, ctx, client, base, "none", nil, "")
	text := serve(t, ctx, client, base, "text", "ours <ü>", "")
	object := serve(t, ctx, client, base, "object", load{"k", 7, []string{}, map[string]string{"a": "b"}}, "Discovery$Load",
		discovery.WithJavaClass("Discovery$Load"))
	values := serve(t, ctx, client, base, "map", map[string]string{"a": "b", "c": "d"}, "java.util.LinkedHashMap")
	disabled := serve[any](t, ctx, client, base, "disabled", nil, "")
	// Java before 5.6 has no paths of its own. The parent of these is that of a service with a
	// slash in its name. (CURATOR-457)
	own := serve(t, ctx, client, base, "own", "ours", "", discovery.WithPaths(func(name string) string { return base + "/" + name + "/instances" }))

	p := s.javaProgram(t, "Discovery", base)
	session := p.hearsSession(t, ctx)
	none.java, text.java = p.hears(t, ctx, "registered"), p.hears(t, ctx, "registered")
	object.java, values.java = p.hears(t, ctx, "registered"), p.hears(t, ctx, "registered")
	bad := p.hears(t, ctx, "registered")
	disabled.java, own.java = p.hears(t, ctx, "registered"), p.hears(t, ctx, "registered")
	require.Contains(t, object.java, `|Discovery$Load|{"k":"v","n":3,"l":["a","b"],"m":{"x":"y"}}|`)
	require.Contains(t, disabled.java, "|false")
	none.sees(t, ctx, none.ours(), none.java)
	text.sees(t, ctx, text.ours(), text.java)
	object.sees(t, ctx, object.ours(), object.java)
	values.sees(t, ctx, values.ours(), values.java)
	disabled.sees(t, ctx, disabled.ours(), disabled.java)
	own.sees(t, ctx, own.ours(), own.java)
	all := []string{none.ours(), none.java, text.ours(), text.java, object.ours(), object.java, values.ours(), values.java,
		disabled.ours(), disabled.java, own.ours(), own.java}
	p.hearsAll(t, ctx, all...)

	// Java's instance is registered again by a type that has only one of its fields. Java reads all
	// of them in the copy.
	partial, err := discovery.New[struct {
		K string `json:"k"`
	}](client, base)
	require.NoError(t, err)
	read, found, err := partial.Get(ctx, "object", "java-object")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "v", read.Payload.K)
	read.ID = "copy"
	copied := testbed.Must(partial.Register(ctx, read))
	p.hearsAll(t, ctx, append(all, strings.Replace(object.java, "|java-object|", "|copy|", 1))...)
	require.NoError(t, copied.Close())

	// Java's query would fail as a whole.
	testbed.Create(t, client, base+"/bad/go-bad", []byte(`{"payload":{"@class":`))
	reported := make(chan string, 10)
	d, err := discovery.New[any](client, base, discovery.WithUnreadable(func(path string, _ error) { reported <- path }))
	require.NoError(t, err)
	list := testbed.Must(d.Lookup(ctx, "bad"))
	require.Len(t, list, 1)
	require.Equal(t, bad, show(list[0]))
	require.Equal(t, base+"/bad/go-bad", testbed.Receive(t, reported, "a report"))

	// Both update an instance and end the registration of another.
	i := object.registered.Instance()
	i.Payload.K = "later"
	require.NoError(t, object.registered.Update(ctx, i))
	require.NoError(t, text.registered.Close())
	c.create(t, ctx, base+"-update")
	object.java = p.hears(t, ctx, "updated")
	object.sees(t, ctx, object.ours(), object.java)
	text.sees(t, ctx)
	left := []string{none.ours(), none.java, object.ours(), object.java, values.ours(), values.java, disabled.ours(), disabled.java, own.ours(), own.java}
	p.hearsAll(t, ctx, left...)

	// A session that ends: its instances are registered again.
	for _, ends := range []struct {
		session int64
		path    string
	}{{testbed.Session(t, client).ID(), object.registered.Path()}, {session, base + "/object/java-object"}} {
		_, before, err := client.Get(ctx, ends.path)
		require.NoError(t, err)
		require.NoError(t, s.ensemble.ExpireSession(ctx, ends.session))
		until(t, ctx, func() bool {
			_, now, err := client.Get(ctx, ends.path)
			return err == nil && now.Czxid != before.Czxid
		}, "another node")
	}
	none.sees(t, ctx, none.ours(), none.java)
	object.sees(t, ctx, object.ours(), object.java)
	values.sees(t, ctx, values.ours(), values.java)
	disabled.sees(t, ctx, disabled.ours(), disabled.java)
	c.create(t, ctx, base+"-over")
	p.hears(t, ctx, "done")
	none.sees(t, ctx, none.ours())
	object.sees(t, ctx, object.ours())
	values.sees(t, ctx, values.ours())
	disabled.sees(t, ctx, disabled.ours())
}
