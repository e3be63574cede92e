package discovery_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, server *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	return testbed.NewClient(t, server.Servers(), opts...)
}

func newDiscovery[T any](t *testing.T, client *framework.Client, opts ...discovery.Option) *discovery.Discovery[T] {
	t.Helper()
	d, err := discovery.New[T](client, "/services", opts...)
	require.NoError(t, err)
	return d
}

// register returns a registration that is closed when the test ends.
func register[T any](t *testing.T, d *discovery.Discovery[T], i discovery.Instance[T]) *discovery.Registration[T] {
	t.Helper()
	r, err := d.Register(testbed.Context(t), i)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// watch returns a watch that is closed when the test ends.
func watch[T any](t *testing.T, d *discovery.Discovery[T], name string) *discovery.Watch[T] {
	t.Helper()
	w, err := d.Watch(testbed.Context(t), name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// shows waits until the list of a watch meets a condition.
func shows[T any](t *testing.T, w *discovery.Watch[T], condition func(list []discovery.Instance[T]) bool) {
	t.Helper()
	for list, err := range w.Observe(testbed.Context(t)) {
		require.NoError(t, err)
		if condition(list) {
			return
		}
	}
	require.FailNow(t, "the iteration has ended without an error")
}

// follow returns the lists of an iteration, and the error that ends it.
func follow[T any](seq iter.Seq2[[]discovery.Instance[T], error]) (<-chan []discovery.Instance[T], <-chan error) {
	lists := make(chan []discovery.Instance[T], 100)
	return lists, testbed.Go(func() error {
		for list, err := range seq {
			if err != nil {
				return err
			}
			lists <- list
		}
		return nil
	})
}

// lookup returns the instances of a service.
func lookup[T any](t *testing.T, d *discovery.Discovery[T], name string) []discovery.Instance[T] {
	t.Helper()
	list, err := d.Lookup(testbed.Context(t), name)
	require.NoError(t, err)
	return list
}

// load is the payload of testdata/java.txt.
type load struct {
	K string            `json:"k"`
	N int               `json:"n"`
	L []string          `json:"l"`
	M map[string]string `json:"m"`
}

// testdata returns both parts of each line of a file.
func testdata(t *testing.T, name, separator string) iter.Seq2[string, string] {
	t.Helper()
	text := testbed.Must(os.ReadFile("testdata/" + name))
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(string(text)) {
			before, after, found := strings.Cut(strings.TrimSuffix(line, "\n"), separator)
			require.True(t, found, line)
			if !yield(before, after) {
				return
			}
		}
	}
}

// java returns what Java's Curator 5.4.0 wrote, by title.
func java(t *testing.T) map[string]string {
	t.Helper()
	lines := map[string]string{}
	for title, data := range testdata(t, "java.txt", " ") {
		lines[title] = data
	}
	return lines
}

func service[T any](payload T) discovery.Instance[T] {
	return discovery.Instance[T]{
		Name: "svc", ID: "id-1", Address: "10.0.0.1", Payload: payload, RegistrationTime: time.UnixMilli(1700000000000).UTC(),
	}
}

// sameAsJava checks that we write an instance as Java does, and read the same from that, with class
// as the payload's.
func sameAsJava[T any](t *testing.T, title string, i discovery.Instance[T], class string, opts ...discovery.Option) {
	t.Run(title, func(t *testing.T) {
		want := java(t)[title]
		require.NotEmpty(t, want)
		server := zktest.NewServer(t)
		d := newDiscovery[T](t, newClient(t, server), opts...)
		if i.Type == discovery.Permanent {
			require.NoError(t, testbed.Err(d.Write(testbed.Context(t), i)))
		} else {
			register(t, d, i)
		}
		assert.Equal(t, want, testbed.ServerData(t, server, "/services/svc/id-1"))

		i.PayloadClass = class
		i.Type = cmp.Or(i.Type, discovery.Dynamic)
		// the second is this library's, for the text that was read
		for _, written := range []string{want, strings.ReplaceAll(want, `,"enabled":true`, "")} {
			read, err := discovery.Decode[T]([]byte(written))
			require.NoError(t, err)
			assert.EqualExportedValues(t, i, read)
			assert.Equal(t, i.RegistrationTime, read.RegistrationTime)
			again, err := discovery.Encode(read)
			require.NoError(t, err)
			assert.Equal(t, strings.ReplaceAll(want, `,"enabled":true`, ""), string(again))
		}
	})
}

func TestInstancesAreWrittenAndReadAsInJava(t *testing.T) {
	object := load{"v", 3, []string{"a", "b"}, map[string]string{"x": "y"}}
	class := discovery.WithJavaClass("Probe$Pay")
	sameAsJava(t, "obj", service(object), "Probe$Pay", class)
	full := service(object)
	full.Port, full.SSLPort, full.Type = 8080, 8443, discovery.Dynamic
	spec := testbed.Must(discovery.ParseURISpec("{scheme}://{address}:{port}/x{[}{]}"))
	full.URISpec = spec
	sameAsJava(t, "objfull", full, "Probe$Pay", class, discovery.WithEnabledField())
	text := service("text <ü>\u0001/\"&")
	text.Type = discovery.Static
	sameAsJava(t, "string", text, "")
	none := service[*load](nil)
	none.Type = discovery.Permanent
	sameAsJava(t, "null", none, "", class)
	sameAsJava(t, "int", service(5), "")
	sameAsJava(t, "bool", service(true), "")
	long := service(int64(5))
	long.PayloadClass = "java.lang.Long"
	sameAsJava(t, "long", long, "java.lang.Long")
	sameAsJava(t, "list", service([]string{"a", "b"}), "java.util.ArrayList")
	sameAsJava(t, "map", service(map[string]string{"x": "y"}), "java.util.LinkedHashMap")
}

func TestMissingAndUnknownFieldsDoNotDisturbReading(t *testing.T) {
	for text, want := range map[string]discovery.Instance[any]{
		`{}`: {Name: "orders", ID: "1", Type: discovery.Dynamic},
		`{"name":"a","id":"h:1","address":"h","port":1,"payload":null,"registrationTimeUTC":0,"tag":"x"}`: {
			Name: "a", ID: "h:1", Address: "h", Port: 1, Type: discovery.Dynamic,
		},
		`{"name":"a","enabled":false,"new":{"a":[1]},"serviceType":"STATIC"}`: {Name: "a", ID: "1", Disabled: true, Type: discovery.Static},
		`{"serviceType":"LATER"}`: {Name: "orders", ID: "1", Type: "LATER"},
	} {
		i, err := discovery.Decode[any]([]byte(text))
		require.NoError(t, err, text)
		got, err := discovery.Encode(i)
		require.NoError(t, err)
		expected, err := discovery.Encode(want)
		require.NoError(t, err)
		assert.Equal(t, string(expected), string(got))
		assert.Equal(t, want.Disabled, i.Disabled)
	}
}

// With "parts":null, Java's ServiceProvider fails for all instances of the service.
func TestAURISpecWithoutPartsHasAnEmptyList(t *testing.T) {
	empty := testbed.Must(discovery.ParseURISpec(""))
	for _, spec := range []*discovery.URISpec{empty, {}} {
		data, err := discovery.Encode(discovery.Instance[any]{URISpec: spec})
		require.NoError(t, err)
		assert.Contains(t, string(data), `,"uriSpec":{"parts":[]}`)
	}
	for _, text := range []string{`{"uriSpec":{"parts":null}}`, `{"uriSpec":{}}`} {
		i, err := discovery.Decode[any]([]byte(text))
		require.NoError(t, err)
		data, err := discovery.Encode(i)
		require.NoError(t, err)
		assert.Contains(t, string(data), `,"uriSpec":{"parts":[]}`)
	}
}

func TestWhatIsNoInstanceIsAnError(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `"x"`, `{"port":[80]}`, `{"sslPort":"x"}`, `{"port":3000000000}`, `{"name":{}}`, `{"uriSpec":1}`, `10.0.0.1`, `{"payload":"text"}`,
	} {
		require.Error(t, testbed.Err(discovery.Decode[int]([]byte(text))), text)
	}
}

func TestListsWithoutAClassAreRead(t *testing.T) {
	for text, want := range map[string][]string{
		`{"payload":["a","b","c"]}`:                          {"a", "b", "c"},
		`{"payload":["a","b"]}`:                              {"a", "b"},
		`{"payload":["java.util.ArrayList",["a","b"]]}`:      {"a", "b"},
		`{"payload":[]}`:                                     {},
		`{"payload":["java.util.ArrayList",["only"]],"z":1}`: {"only"},
	} {
		i, err := discovery.Decode[[]string]([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, i.Payload, text)
	}
}

func TestClassAndUnknownFieldsOfAPayloadAreKept(t *testing.T) {
	type part struct {
		K string `json:"k,omitempty"`
		N int    `json:"n"`
	}
	i, err := discovery.Decode[part]([]byte(`{"name":"a","payload":{"new":{"b":[1, 2]},"k":"v","@class":"com.example.C","n":1,"last":null}}`))
	require.NoError(t, err)
	assert.Equal(t, part{"v", 1}, i.Payload)
	i.Payload = part{"", 2}
	data, err := discovery.Encode(i)
	require.NoError(t, err)
	assert.Contains(t, string(data), `"payload":{"@class":"com.example.C","n":2,"last":null,"new":{"b":[1,2]}}`)

	whole, err := discovery.Decode[map[string]any]([]byte(`{"payload":{"@class":"com.example.C","k":"v","l":"w"}}`))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"k": "v", "l": "w"}, whole.Payload)
	raw, err := discovery.Decode[json.RawMessage]([]byte(`{"payload":{"l":1,"@class":"com.example.C","k":2}}`))
	require.NoError(t, err)
	assert.JSONEq(t, `{"l":1,"k":2}`, string(raw.Payload))
	data, err = discovery.Encode(discovery.Instance[json.RawMessage]{Payload: json.RawMessage(`{"k":1,"@class":"com.example.C"}`)})
	require.NoError(t, err)
	assert.Contains(t, string(data), `"payload":{"@class":"com.example.C","k":1}`, "a class that the payload writes itself")
	delete(whole.Payload, "k")
	data, err = discovery.Encode(whole)
	require.NoError(t, err)
	assert.Contains(t, string(data), `"payload":{"@class":"com.example.C","l":"w"}`)
}

// A Watch decodes on the goroutine that follows the service.
func TestAPayloadWithManyFieldsHoldsNobodyUp(t *testing.T) {
	payload := make(map[string]string)
	for n := range 30000 {
		payload[fmt.Sprint("field ", n)] = "value"
	}
	done := testbed.Go(func() error { // ends with the round trip
		data, err := discovery.Encode(discovery.Instance[map[string]string]{Payload: payload})
		if err == nil {
			_, err = discovery.Decode[map[string]string](data)
		}
		return err
	})
	// it takes 0.1 s; 2 minutes if each field is compared with each
	require.NoError(t, testbed.Receive(t, done, "a node of less than a megabyte"))
}

// FuzzDecode looks for JSON that makes reading panic, or that is not the same when it is written
// and read again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"payload":[]}`, `{"payload":["",1]}`, `{"payload":{"@class":1}}`, `{"payload":{"@class":"a","@class":"b"}}`,
		`{"uriSpec":{"parts":[null]}}`, `{"uriSpec":{}}`, `{"payload":["a",["b",{"c":1}]],"port":1}`, `{"registrationTimeUTC":-9223372036854775808}`,
		`{"payload":{"a":1,"a":2}}`, "{\"name\":\"\xff\"}", `{"payload":{"K":"v","k":"w"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrip[any](t, data)
		roundTrip[load](t, data)
		roundTrip[[]string](t, data)
		roundTrip[*discovery.Metadata](t, data)
		roundTrip[json.RawMessage](t, data)
	})
}

func roundTrip[T any](t *testing.T, data []byte) {
	i, err := discovery.Decode[T](data)
	if err != nil {
		return
	}
	_ = i.URI(nil)
	once, err := discovery.Encode(i)
	require.NoError(t, err)
	again, err := discovery.Decode[T](once)
	require.NoError(t, err, "%s", once)
	twice, err := discovery.Encode(again)
	require.NoError(t, err)
	require.JSONEq(t, string(once), string(twice))
}
