package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestChroot(t *testing.T) {
	const data = `{"name":"orders","id":"i1","address":"h","port":1,"serviceType":"DYNAMIC"}`
	server := zktest.NewServer(t)
	for _, chroot := range []string{"/app", "/a", "/a/b"} {
		require.NoError(t, server.Create(chroot+"/services/orders/i1", []byte(data)))
		require.Equal(t, "orders\n", prints(t, server, "ls", "--servers", server.Addr()+chroot), chroot)
		prints(t, server, "register", "--servers", server.Addr()+chroot,
			"--name", "stock", "--address", "h", "--port", "1", "--", "true")
		require.True(t, server.Exists(chroot+"/services/stock"), chroot)
	}
	require.ElementsMatch(t, []string{"a", "app", "zookeeper"}, testbed.ServerChildren(t, server, "/"), "nothing is created elsewhere")
}

// TestLsQuotesForeignText: text that another client wrote adds no line or column, and sends nothing
// to the terminal.
func TestLsQuotesForeignText(t *testing.T) {
	for name, data := range map[string]string{
		"payload over several lines": "{\n  \"id\": \"a\",\n  \"address\": \"10.0.0.1\",\n  \"port\": 8080,\n  \"payload\": {\n    \"version\": \"1.2\"\n  }\n}\n",
		"escape in the address":      `{"id":"a","address":"10.0.0.1\u001b[2J","port":8080}`,
		"line in the id":             `{"id":"y\nfake-id\t10.9.9.9:80\tenabled\tnull","address":"10.0.0.1","port":80}`,
		"escape in the payload":      `{"id":"a","address":"10.0.0.1","port":80,"payload":{"a":"\u001b]0;owned\u0007","b":"` + "\u009b31m" + `"}}`,
		"text over several planes":   `{"id":"a","address":"10.0.0.1","port":80,"payload":"` + "\U000e0001" + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			require.NoError(t, server.Create("/services/orders/a", []byte(data)))
			text := prints(t, server, "ls", "orders")
			require.Equal(t, 1, strings.Count(text, "\n"), "%q", text)
			require.Equal(t, 3, strings.Count(text, "\t"), "%q", text)
			require.NotContains(t, text, "\x1b")
			require.NotContains(t, text, "\u009b")
		})
	}
}

func TestLsQuotesNames(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/services/a\u202eb/x", []byte("{")))
	require.Equal(t, "\"a\\u202eb\"\n", prints(t, server, "ls"))
	text, _ := runs(t, server, "ls", "a\u202eb")
	require.NotContains(t, text, "\u202e", "the name of a node that cannot be read")
}

// TestNamesWithSlashes: applications of Spring Cloud have such names.
func TestNamesWithSlashes(t *testing.T) {
	server := zktest.NewServer(t)
	for _, name := range []string{"pl/warsaw/collector", "pl/krakow", "pl"} {
		require.NoError(t, server.Create("/services/"+name+"/a", []byte(`{"name":"`+name+`","id":"a","address":"10.0.0.1","port":8081}`)))
	}
	require.NoError(t, server.Create("/services/idle", nil))
	require.Equal(t, "idle\npl\npl/krakow\npl/warsaw/collector\n", prints(t, server, "ls"))

	_, get, end := serves(t, server)
	for path, want := range map[string]int{"/": 3, "/pl/warsaw/collector": 1} {
		_, body := get(path)
		require.Equal(t, want, strings.Count(body, "10.0.0.1:8081"), body)
	}
	require.Zero(t, end())
}
