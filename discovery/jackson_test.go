package discovery_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/zktest"
)

// jackson.txt has what JsonInstanceSerializer of Curator 5.9.0 with Jackson 2.21.4 reads, or
// "error". Instances that Java cannot read and this package can are not in it: unknown types and
// lists without a class.
func TestDecode_ReadsWhatJacksonReads(t *testing.T) {
	for want, data := range testdata(t, "jackson.txt", "\t") {
		i, err := discovery.Decode[any]([]byte(data))
		if want == "error" {
			assert.Error(t, err, data)
			continue
		}
		if assert.NoError(t, err, data) {
			assert.Equal(t, normal(want), shown(i), data)
		}
	}
}

// shown is an instance in the form of jackson.txt.
func shown(i discovery.Instance[any]) string {
	millis := int64(0)
	if !i.RegistrationTime.IsZero() {
		millis = i.RegistrationTime.UnixMilli()
	}
	return fmt.Sprintf("%s|%s|%s|%d|%d|%d|%s|%s|%t", i.Name, i.ID, i.Address, i.Port, i.SSLPort, millis, i.Type, i.URI(nil), !i.Disabled)
}

// normal writes nulls as this package reads them, and no port for a number that cannot be one.
func normal(java string) string {
	f := strings.Split(java, "|")
	if f[0] == "" {
		f[0] = "orders" // the name of the service
	}
	if f[1] == "" {
		f[1] = "1" // the name of the node
	}
	for _, at := range []int{3, 4} {
		if port, err := strconv.ParseUint(f[at], 10, 16); err != nil || port == 0 {
			f[at] = "0"
		}
	}
	if f[6] == "" {
		f[6] = string(discovery.Dynamic)
	}
	return strings.Join(f, "|")
}

func TestDecode_IgnoresAByteOrderMarkAndWhatFollowsTheInstance(t *testing.T) {
	for _, data := range []string{"\xef\xbb\xbf{\"name\":\"a\"}", "{\"name\":\"a\"}\x00", "{\"name\":\"a\"}\n{}", `{"name":"a"} and text`} {
		i, err := discovery.Decode[any]([]byte(data))
		require.NoError(t, err, "%q", data)
		require.Equal(t, "a", i.Name, "%q", data)
	}
	_, err := discovery.Decode[any]([]byte("\x00{}"))
	require.Error(t, err)
}

const springClass = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance"

func TestDecode_ConvertsTheMetadataOfSpringAndDubbo(t *testing.T) {
	payload := `{"payload":{"@class":"` + springClass + `","id":5,"name":true,"metadata":` +
		`{"n":5,"on":true,"zone":null,"load":1.50,"big":123456789012345678901234567890,"text":"<ü>"}}}`
	want := map[string]string{"n": "5", "on": "true", "zone": "", "load": "1.50", "big": "123456789012345678901234567890", "text": "<ü>"}
	i, err := discovery.Decode[discovery.Metadata]([]byte(payload))
	require.NoError(t, err)
	require.Equal(t, discovery.Metadata{ID: "5", Name: "true", Metadata: want}, i.Payload)
	own, err := discovery.Decode[struct{ Metadata map[string]string }]([]byte(payload))
	require.NoError(t, err)
	require.Equal(t, want, own.Payload.Metadata, "a type of the caller's")
	for _, bad := range []string{`{}`, `[1]`, `"x"`} {
		for _, metadata := range []string{bad, `{"n":` + bad + `}`} {
			if metadata == `{}` || metadata == `{"n":"x"}` {
				continue
			}
			_, err := discovery.Decode[discovery.Metadata]([]byte(`{"payload":{"@class":"` + springClass + `","metadata":` + metadata + `}}`))
			require.Error(t, err, metadata)
		}
	}
	for status, disabled := range map[string]bool{`"UP"`: false, `true`: true, `0`: true, `null`: false} {
		i, err := discovery.Decode[any]([]byte(`{"payload":{"@class":"` + springClass + `","metadata":{"n":1,"instance_status":` + status + `}}}`))
		require.NoError(t, err)
		require.Equal(t, disabled, i.Disabled, status)
	}
}

func TestNumbersInAnyKeepTheirDigits(t *testing.T) {
	for _, payload := range []string{
		`9007199254740993`, `["java.lang.Long",9007199254740993]`, `{"@class":"com.example.C","a":{"b":[9007199254740993,1.50,1E400]}}`,
	} {
		i, err := discovery.Decode[any]([]byte(`{"payload":` + payload + `}`))
		require.NoError(t, err, payload)
		data, err := discovery.Encode(i)
		require.NoError(t, err)
		require.Contains(t, string(data), `"payload":`+payload+`,`)
	}
}

// Programs in Python, PHP or Lua register like this.
func TestLookup_ReadsScalarsOfOtherLanguages(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/services/orders/node", []byte(
		"\xef\xbb\xbf"+`{"name":"orders","id":17,"address":"10.0.0.1","port":"8080","sslPort":-1,"registrationTimeUTC":"1651140425000"}`+"\x00")))
	d := newDiscovery[any](t, newClient(t, server), discovery.WithUnreadable(func(path string, err error) { t.Error(path, err) }))
	list := lookup(t, d, "orders")
	require.Len(t, list, 1)
	require.Equal(t, "orders|17|10.0.0.1|8080|0|1651140425000|DYNAMIC||true", shown(list[0]))
}
