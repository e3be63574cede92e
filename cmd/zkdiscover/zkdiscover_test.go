package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// beZkdiscover is in the environment of a test binary that is zkdiscover.
const beZkdiscover = "ZKDISCOVER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beZkdiscover) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// output is what the program prints.
type output struct {
	testbed.Output
}

// await waits until the output matches, and returns the last submatch.
func (o *output) await(t *testing.T, expression string) string {
	t.Helper()
	re := regexp.MustCompile(expression)
	var m []string
	testbed.Eventually(t, func() bool { m = re.FindStringSubmatch(o.String()); return m != nil }, expression)
	return m[len(m)-1]
}

// zkdiscover runs the program until ctx ends.
func zkdiscover(ctx context.Context, args []string, out, stderr io.Writer) int {
	a := newApp(out, stderr)
	return a.Execute(ctx, root(a), args)
}

// with adds the flag for the server behind the command.
func with(server *zktest.Server, args []string) []string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return args
	}
	return append([]string{args[0], "--servers", server.Addr()}, args[1:]...)
}

// begin runs the program until end is called, which returns its exit code.
func begin(t *testing.T, server *zktest.Server, args ...string) (out *output, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	out = &output{}
	code := testbed.Go(func() int { return zkdiscover(ctx, with(server, args), out, out) })
	return out, func() int { cancel(); return <-code }
}

// run runs the program to its end.
func runs(t *testing.T, server *zktest.Server, args ...string) (text string, code int) {
	t.Helper()
	out := &output{}
	code = zkdiscover(t.Context(), with(server, args), out, out)
	return out.String(), code
}

// prints runs the program to its end, which must be good, and returns its output.
func prints(t *testing.T, server *zktest.Server, args ...string) string {
	t.Helper()
	text, code := runs(t, server, args...)
	require.Zero(t, code, text)
	return text
}

// serves runs the program's HTTP server until the last function is called. The first one sends it a
// request, and returns the status and the body.
func serves(t *testing.T, server *zktest.Server, flags ...string) (*output, func(string) (int, string), func() int) {
	t.Helper()
	out, end := begin(t, server, append([]string{"http", "--listen", "127.0.0.1:0"}, flags...)...)
	url := out.await(t, `serving http_sd at (\S+)`)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return out, func(path string) (int, string) {
		answer := testbed.Must(http.Get(url + path))
		defer answer.Body.Close()
		body := testbed.Must(io.ReadAll(answer.Body))
		return answer.StatusCode, string(body)
	}, end
}

func newServer(t *testing.T) *zktest.Server {
	t.Helper()
	server := zktest.NewServer(t)
	for path, data := range map[string]string{
		"/services/orders/a": `{"name":"orders","id":"a","address":"10.0.0.1","port":8080,` +
			`"payload":{"@class":"com.example.Metadata","id":"x","name":"orders","metadata":{"zone-name":"eu"}}}`,
		"/services/orders/b": `{"id":"b","address":"::1","sslPort":443,"payload":"text"}`,
		"/services/orders/c": `{"id":"c","address":"10.0.0.3","port":1,"enabled":false}`,
		"/services/stock":    "",
	} {
		require.NoError(t, server.Create(path, []byte(data)))
	}
	return server
}

func TestLsShowsNamesAndInstances(t *testing.T) {
	server := newServer(t)
	require.Equal(t, "orders\nstock\n", prints(t, server, "ls"))
	require.Equal(t, "a\t10.0.0.1:8080\tenabled\t"+`{"id":"x","metadata":{"zone-name":"eu"},"name":"orders"}`+
		"\nb\t[::1]:443\tenabled\t\"text\"\nc\t10.0.0.3:1\tdisabled\tnull\n", prints(t, server, "ls", "orders"))
	require.NoError(t, server.Create("/services/stock/bad", []byte("bad")))
	require.Contains(t, prints(t, server, "ls", "stock"), "/services/stock/bad")
}

func TestWatchPrintsEachChange(t *testing.T) {
	server := newServer(t)
	out, end := begin(t, server, "watch", "stock")
	out.await(t, "(?m)^# .*: 0$")
	require.NoError(t, server.Create("/services/stock/d", []byte(`{"address":"h","port":1}`)))
	out.await(t, "(?m)^# .*: 1\nd\th:1\tenabled\tnull\n")
	require.Zero(t, end())
}

func TestRegisterRegistersACommandAsLongAsItRuns(t *testing.T) {
	server := newServer(t)
	flags := []string{"register", "--name", "stock", "--id", "me", "--address", "10.0.0.9", "--port", "99", "--payload", `{"k":"v"}`, "--class", "com.example.C"}
	out, end := begin(t, server, append(flags, "--", "sh", "-c", `trap 'echo stopped; exit 7' TERM; echo up; while :; do sleep 0.01; done`)...)
	out.await(t, "up")
	testbed.Eventually(t, func() bool { return server.Exists("/services/stock/me") }, "registered")
	require.Contains(t, testbed.ServerData(t, server, "/services/stock/me"), `"address":"10.0.0.9","port":99,"sslPort":null,"payload":{"@class":"com.example.C","k":"v"}`)
	require.Equal(t, 7, end())
	require.Contains(t, out.String(), "stopped")
	require.False(t, server.Exists("/services/stock/me"))

	for want, command := range map[int][]string{
		3: {"sh", "-c", "exit 3"}, 137: {"sh", "-c", "kill -9 $$"},
		cli.ExitNotFound: {"/does/not/exist"}, cli.ExitCannotRun: {t.TempDir()},
	} {
		_, code := runs(t, server, slices.Concat(flags, []string{"--"}, command)...)
		require.Equal(t, want, code)
	}
	require.False(t, server.Exists("/services/stock/me"))
}

// The node exists until the session expires. A restarted command does not wait for that.
func TestACommandThatEndsWithoutAServerIsNotWaitedFor(t *testing.T) {
	testbed.Virtual(t, func(t *testing.T, w *testbed.World) {
		d := testbed.Must(discovery.New[json.RawMessage](w.Client(), "/services"))
		reg := testbed.Must(d.Register(t.Context(), instance{Name: "stock", Address: "h", Port: 9}))
		w.Server.Stop()
		began := time.Now()
		s := &serving{child: dead{}, ending: t.Context(), unregister: func(ctx context.Context, drain time.Duration) { _ = reg.Drain(ctx, drain) }}
		require.ErrorContains(t, s.serve(time.Hour), "the command has failed")
		require.LessOrEqual(t, time.Since(began), stopWait)
	})
}

// dead is a command that has ended.
type dead struct{}

func (dead) ended() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (dead) signal(syscall.Signal) {}

func (dead) result() error { return errors.New("the command has failed") }

func TestHTTPServesWhatPrometheusReads(t *testing.T) {
	server := newServer(t)
	out, get, end := serves(t, server, "--connect", "2s")
	status, body := get("/")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `[
		{"targets":["10.0.0.1:8080"],"labels":{"__meta_curator_service":"orders","__meta_curator_id":"a","__meta_curator_metadata_zone_name":"eu"}},
		{"targets":["[::1]:443"],"labels":{"__meta_curator_service":"orders","__meta_curator_id":"b","__scheme__":"https"}}]`, body)
	_, one := get("/orders")
	require.Equal(t, body, one)
	_, body = get("/stock")
	require.Equal(t, "[]\n", body)

	client := testbed.NewClient(t, server.Servers())
	testbed.Create(t, client, "/services/secret", nil, framework.ACL([]zk.ACL{{Perms: zk.PermWrite, Scheme: "world", ID: "anyone"}}))
	_, body = get("/")
	require.Equal(t, one, body, "a service that may not be read hides no other")
	require.Equal(t, "orders\nsecret\nstock\n", prints(t, server, "ls"))
	out.await(t, "lookup /services/secret: .*authenticated")
	status, _ = get("/secret")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NoError(t, client.Close())

	server.Stop()
	status, body = get("/")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.False(t, json.Valid([]byte(body)))
	require.Zero(t, end())
}

func TestWrongUseHasItsExitCode(t *testing.T) {
	server := newServer(t)
	register := []string{"register", "--name", "a", "--address", "h", "--port", "1"}
	for _, args := range [][]string{
		{}, {"delete"}, {"--wrong"}, {"ls", "--connect", "0s"}, {"ls", "--base", "services"}, {"ls", "a", "b"}, {"watch"}, {"watch", "../a"}, {"http", "x"}, {"ls", "--servers", ","},
		{"register", "--name", "a", "--address", "h", "--", "true"}, register, append(register[:7:7], "--payload", "x", "--", "true"),
		append(register[:7:7], "--drain", "-1s", "--", "true"), {"register", "--name", "a", "--port", "1", "--", "true"},
	} {
		text, code := runs(t, server, args...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", args, text)
		require.Equal(t, 1, strings.Count(text, "\n"), text)
	}
	for _, args := range [][]string{{"-h"}, {"register", "-h"}, {"http", "-h"}} {
		require.Contains(t, prints(t, server, args...), "Usage:\n  zkdiscover")
	}
	server.Stop()
	text, code := runs(t, server, "ls", "--connect", "100ms")
	require.Equal(t, cli.ExitUnavailable, code)
	require.Contains(t, text, "no server answers")
}
