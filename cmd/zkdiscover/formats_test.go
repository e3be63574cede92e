package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

func TestFormats(t *testing.T) {
	server := zktest.NewServer(t)
	for path, data := range map[string]string{
		"/lists/a/prod/member_0000000001": `{"serviceEndpoint":{"host":"10.0.0.1","port":31001},"additionalEndpoints":{},"status":"ALIVE","shard":1}`,
		"/lists/a/prod/member_0000000002": `{"serviceEndpoint":{"host":"10.0.0.2","port":31001},"additionalEndpoints":{},"status":"DEAD","shard":2}`,
		"/lists/b/i-1_0000000001":         `{"host":"10.0.0.1","port":31001,"name":"i-1"}`,
		"/lists/c/_c_5a-c0000000001":      `10.0.0.1:31001`,
		"/lists/c/_c_5b-c0000000002":      `http://10.0.0.2:31001`,
	} {
		require.NoError(t, server.Create(path, []byte(data)))
	}
	require.Equal(t, "a/prod\nb\nc\n", prints(t, server, "ls", "--base", "/lists", "--format", "serverset"))
	for format, want := range map[string]string{
		"serverset a/prod": "member_0000000001\t10.0.0.1:31001\tenabled\t" + `{"serviceEndpoint":{"host":"10.0.0.1","port":31001},"additionalEndpoints":{},"status":"ALIVE","shard":1}` + "\n" +
			"member_0000000002\t10.0.0.2:31001\tdisabled\t" + `{"serviceEndpoint":{"host":"10.0.0.2","port":31001},"additionalEndpoints":{},"status":"DEAD","shard":2}` + "\n",
		"nerve b":    "i-1\t10.0.0.1:31001\tenabled\t" + `{"host":"10.0.0.1","port":31001,"name":"i-1"}` + "\n",
		"hostport c": "_c_5a-c0000000001\t10.0.0.1:31001\tenabled\tnull\n",
	} {
		name, service, _ := strings.Cut(format, " ")
		text := prints(t, server, "ls", "--base", "/lists", "--format", name, service)
		lines, skipped := "", 0
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "zkdiscover: ") {
				require.Contains(t, line, "unreadable instance in the format hostport")
				skipped++
			} else {
				lines += line
			}
		}
		require.Equal(t, want, lines)
		require.Equal(t, name == "hostport", skipped == 1, text)
		out, end := begin(t, server, "watch", "--base", "/lists", "--format", name, service)
		out.await(t, `10\.0\.0\.1:31001`)
		require.Zero(t, end())
	}
	text, code := runs(t, server, "ls", "--format", "consul")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, text, `unknown format "consul"`)
}

// One target that Prometheus refuses must not hide the others.
func TestHTTP_ServesOnlyTargetsThatCanBeScraped(t *testing.T) {
	server := zktest.NewServer(t)
	for id, address := range map[string]string{
		"1": "10.0.0.1", "2": "h.example", "3": "::1", "4": "fe80::1%eth0", "5": "my_host", "[6]": "[::1]",
		"url": "http://10.0.0.1", "port": "10.0.0.1:80", "path": "h/x", "space": "a b", "user": "u@h", "empty": "", "bracket": "[h",
	} {
		data, err := json.Marshal(map[string]any{"address": address, "port": 80})
		require.NoError(t, err)
		require.NoError(t, server.Create("/services/orders/"+id, data))
	}
	require.NoError(t, server.Create("/services/orders/none", []byte(`{"address":"h"}`)))
	out, get, end := serves(t, server)
	for range 2 {
		_, body := get("/orders")
		var list []targets
		require.NoError(t, json.Unmarshal([]byte(body), &list))
		var all []string
		for _, l := range list {
			all = append(all, l.Targets...)
		}
		require.ElementsMatch(t, []string{"10.0.0.1:80", "h.example:80", "[::1]:80", "[::1]:80", "[fe80::1%eth0]:80", "my_host:80"}, all)
	}
	require.Zero(t, end())
	require.Equal(t, 8, strings.Count(out.String(), "is left out"), "each once: %s", out)
	require.Contains(t, out.String(), `zkdiscover: /services/orders/port is left out: Prometheus cannot scrape address "10.0.0.1:80", port 80`)
}

func TestExitCodes(t *testing.T) {
	server := newServer(t)
	text, code := runs(t, server, "ls", "nothing")
	require.Equal(t, 66, code)
	require.Equal(t, "zkdiscover: no service nothing\n", text)
	require.Empty(t, prints(t, server, "ls", "stock"), "it has no instances")
	_, code = runs(t, server, "ls", "--servers", "")
	require.Equal(t, cli.ExitUsage, code)

	register := []string{"register", "--name", "pay", "--address", "127.0.0.1", "--port", "1"}
	with := func(flags ...string) []string {
		return append(append(register[:len(register):len(register)], flags...), "--", "true")
	}
	text, code = runs(t, server, with("--profile", "spring", "--status", "DWN")...)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, text, `invalid --status "DWN": must be UP, OUT_OF_SERVICE, DOWN, UNKNOWN`)
	prints(t, server, with("--profile", "spring", "--status", "DOWN")...)
	require.NoError(t, server.Create("/services/pay/me", []byte(`{"address":"h","port":1}`)))
	text, code = runs(t, server, with("--id", "me")...)
	require.Equal(t, cli.ExitUnavailable, code)
	require.Equal(t, "zkdiscover: id me is taken: another process is registered at /services/pay/me\n", text)
}

// A process that runs has the id, and a crashed one has it until its session expires.
func TestRegister_WaitsForItsID(t *testing.T) {
	server := zktest.NewServer(t)
	args := []string{"register", "--name", "pay", "--address", "127.0.0.1", "--port", "1", "--id", "me"}
	_, end := begin(t, server, append(args, "--", "sleep", "600")...)
	testbed.Eventually(t, func() bool { return server.Exists("/services/pay/me") }, "it is registered")
	text := ""
	for limit := 200 * time.Millisecond; !strings.Contains(text, "id me is taken"); limit *= 2 { // a slow machine needs longer to see it
		require.Less(t, limit, time.Hour, text)
		var code int
		text, code = runs(t, server, append(args, "--connect", limit.String(), "--", "true")...)
		require.Equal(t, cli.ExitUnavailable, code)
	}
	out, second := begin(t, server, append(args, "--", "sleep", "600")...)
	out.await(t, "waiting for the id me")
	end()
	testbed.Eventually(t, func() bool { return server.Exists("/services/pay/me") }, "it is registered")
	second()
}
