package control_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
	"github.com/gocurator/curator/zktest/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// port is a control port under test.
type port struct {
	t      *testing.T
	server *zktest.Server
	url    string
}

func open(t *testing.T, server *zktest.Server, opts ...control.Option) *port {
	web := httptest.NewServer(control.Handler(server, opts...))
	t.Cleanup(web.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return &port{t, server, web.URL}
}

// ask sends a request, and returns the status and the JSON of the answer.
func (p *port) ask(method, path, body string) (int, map[string]any) {
	p.t.Helper()
	request := testbed.Must(http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body)))
	response, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, "application/json", response.Header.Get("Content-Type"), "%s", text)
	out := map[string]any{}
	require.NoError(p.t, json.Unmarshal(text, &out), "%s", text)
	return response.StatusCode, out
}

// status is ask for the status alone.
func (p *port) status(method, path, body string) int {
	p.t.Helper()
	status, _ := p.ask(method, path, body)
	return status
}

// do is ask for what must succeed.
func (p *port) do(method, path, body string) map[string]any {
	p.t.Helper()
	status, out := p.ask(method, path, body)
	require.Equal(p.t, http.StatusOK, status, "%s %s: %v", method, path, out)
	return out
}

// client is a session of go-zookeeper's.
func client(t *testing.T, servers ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			return conn
		}
	}
	require.Fail(t, "no session")
	return nil
}

func id(conn *zk.Conn) string { return fmt.Sprintf("%#x", uint64(conn.SessionID())) }

func TestSessionsAreShownAndExpired(t *testing.T) {
	p := open(t, zktest.NewServer(t))
	conn := client(t, p.server.Addr())
	require.NoError(t, testbed.Err(conn.Create("/mine", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))))
	status := p.do("GET", "/status", "")
	session := status["sessions"].([]any)[0].(map[string]any)
	require.Equal(t, map[string]any{"session": id(conn), "timeout": "10s", "connected": true, "owns": []any{"/mine"}}, session)
	require.EqualValues(t, 1, status["requests"].(map[string]any)["create"])
	p.do("POST", "/expire", `{"session": "`+id(conn)+`"}`)
	require.False(t, p.server.Exists("/mine"))
	code, out := p.ask("POST", "/expire", `{"session": "0x1"}`)
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, out["error"], "no such session")
	p.do("POST", "/reset-counts", "")
	require.NotContains(t, p.do("GET", "/status", "")["requests"], "create")
}

func TestAddressesStopAndRestart(t *testing.T) {
	server := zktest.NewServer(t)
	l := testbed.Must(server.Listen("127.0.0.1:0", nil))
	p := open(t, server, control.WithListeners(l))
	listening := func() any {
		return p.do("GET", "/status", "")["addresses"].([]any)[0].(map[string]any)["listening"]
	}
	require.Equal(t, true, listening())
	p.do("POST", "/stop", `{"addr": "`+l.Addr()+`"}`)
	require.Equal(t, false, listening())
	p.do("POST", "/stop", "")
	require.Error(t, testbed.Err(server.Dial("", "", 0)))
	p.do("POST", "/restart", "")
	require.Equal(t, false, listening())
	p.do("POST", "/restart", `{"addr": "`+l.Addr()+`"}`)
	require.Equal(t, true, listening())
	client(t, l.Addr())
	require.Equal(t, http.StatusBadRequest, p.status("POST", "/stop", `{"addr": "127.0.0.1:1"}`))
	require.NoError(t, server.Close())
	require.Equal(t, http.StatusConflict, p.status("POST", "/restart", ""))
}

func TestInjectionsAreWaitedFor(t *testing.T) {
	p := open(t, zktest.NewServer(t))
	conn := client(t, p.server.Addr())
	handle := p.do("POST", "/inject", `{"fault": "lose reply", "nth": 1, "ops": ["create"], "path": "/n", "session": "`+id(conn)+`"}`)
	at := "/handles/" + handle["id"].(string)
	require.Equal(t, false, p.do("GET", at+"?wait=1ms", "")["met"])
	for _, path := range []string{"/x", "/n0", "/n1"} {
		require.Equal(t, path == "/n1", testbed.Err(conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))) != nil, path)
	}
	met := p.do("GET", at+"?wait=1m", "")
	require.Equal(t, true, met["met"])
	require.Equal(t, "lose reply: create /n1", met["what"])
	require.True(t, p.server.Exists("/n1"))
	code, out := p.ask("DELETE", at, "")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, out["error"], "injection")
	for f := zktest.FailBefore; f <= zktest.LoseWakeup; f++ {
		p.do("POST", "/inject", `{"fault": "`+f.String()+`"}`)
	}
}

func TestGatesAndDelaysHoldRequestsUp(t *testing.T) {
	p := open(t, zktest.NewServer(t))
	conn := client(t, p.server.Addr())
	for _, body := range []string{`{"ops": ["create"]}`, `{"replies": true, "path": "/held"}`} {
		gate := "/handles/" + p.do("POST", "/block", body)["id"].(string)
		answered := testbed.Go(func() error {
			_, err := conn.Create("/held", nil, 0, zk.WorldACL(zk.PermAll))
			return err
		})
		require.Equal(t, true, p.do("GET", gate+"?wait=1m", "")["met"])
		require.Equal(t, strings.Contains(body, "replies"), p.server.Exists("/held"))
		require.Empty(t, answered)
		p.do("DELETE", gate, "")
		require.NoError(t, <-answered)
		require.Equal(t, http.StatusNotFound, p.status("GET", gate, ""))
		p.do("DELETE", "/node?path=/held", "")
	}
	delay := p.do("POST", "/delay", `{"by": "50ms", "ops": ["exists"]}`)["id"].(string)
	began := time.Now()
	require.NoError(t, testbed.Err(conn.Exists("/")))
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
	require.Equal(t, false, p.do("GET", "/handles/"+delay, "")["met"])
	p.do("DELETE", "/handles/"+delay, "")

	p.do("POST", "/block", "")
	p.do("POST", "/inject", `{"fault": "expire before"}`)
	p.do("POST", "/delay", `{"by": "1h"}`)
	p.do("POST", "/freeze", "")
	p.do("POST", "/refuse", `{"connections": true, "sessions": true}`)
	p.do("POST", "/pause", "")
	p.do("POST", "/clear", "")
	require.NoError(t, testbed.Err(conn.Exists("/")))
	client(t, p.server.Addr())
	require.Equal(t, http.StatusNotFound, p.status("GET", "/handles/4", ""))
}

func TestLinksAreFrozenAndRefusedAndTheClockAdvances(t *testing.T) {
	p := open(t, zktest.NewServer(t))
	conn := client(t, p.server.Addr())
	p.do("POST", "/freeze", `{"sessions": ["`+id(conn)+`"]}`)
	answered := testbed.Go(func() error { return testbed.Err(conn.Exists("/")) })
	other := client(t, p.server.Addr())
	require.NoError(t, testbed.Err(other.Exists("/")), "another session is served")
	require.Empty(t, answered)
	p.do("POST", "/thaw", `{"sessions": ["`+id(conn)+`"]}`)
	require.NoError(t, <-answered)

	p.do("POST", "/refuse", `{"sessions": true}`)
	p.do("POST", "/cut", "")
	testbed.Eventually(t, func() bool {
		return !slices.ContainsFunc(p.server.Sessions(), func(s zktest.Session) bool { return s.Connected })
	}, "all connections end")
	p.do("POST", "/clock", `{"advance": "1m"}`)
	require.Empty(t, p.server.Sessions())
	p.do("POST", "/refuse", `{"sessions": false}`)
	client(t, p.server.Addr())
	p.do("POST", "/pause", "")
	p.do("POST", "/resume", "")
	p.do("POST", "/reap", "")
}

func TestNodes(t *testing.T) {
	p := open(t, zktest.NewServer(t))
	p.do("PUT", "/node", `{"path": "/a/b", "text": "hello"}`)
	p.do("PUT", "/node", `{"path": "/a/bin", "data": "/wA="}`)
	p.do("PUT", "/node", `{"path": "/a/b", "text": "again"}`)
	node := p.do("GET", "/node?path=/a", "")
	require.Equal(t, []any{"b", "bin"}, node["children"])
	node = p.do("GET", "/node?path=/a/b", "")
	require.Equal(t, map[string]any{"path": "/a/b", "text": "again"}, node["node"])
	require.EqualValues(t, 1, node["stat"].(map[string]any)["Version"])
	dump := p.do("GET", "/nodes", "")
	require.Len(t, dump["nodes"], 3)
	p.do("DELETE", "/node?path=/a/b", "")
	require.Equal(t, http.StatusNotFound, p.status("GET", "/node?path=/a/b", ""))
	p.do("POST", "/flush", "")
	require.Equal(t, map[string]any{"nodes": []any{}}, p.do("GET", "/nodes", ""))
	text := testbed.Must(json.Marshal(dump))
	p.do("POST", "/nodes", string(text))
	require.Equal(t, dump, p.do("GET", "/nodes", ""))
}

func TestTraceIsAStreamOfLines(t *testing.T) {
	p := open(t, zktest.NewServer(t))
	conn := client(t, p.server.Addr())
	response, err := http.Get(p.url + "/trace")
	require.NoError(t, err)
	defer response.Body.Close()
	require.NoError(t, testbed.Err(conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))))
	require.NoError(t, testbed.Err(conn.Get("/a")))
	lines := bufio.NewScanner(response.Body)
	for _, want := range []string{"create /a -> /a", "getData /a -> ok"} {
		require.True(t, lines.Scan())
		require.Equal(t, id(conn)+" "+want, lines.Text())
	}
}

func TestWhatMakesNoSenseIsRefused(t *testing.T) {
	p := open(t, zktest.NewServer(t))
	for _, c := range [][3]string{
		{"POST", "/expire", `{"session": "x"}`},
		{"POST", "/expire", `{"sesion": "0x1"}`},
		{"POST", "/expire", `{"session": "0x1"} {}`},
		{"POST", "/expire", `[]`},
		{"POST", "/freeze", `{"sessions": ["x"]}`},
		{"POST", "/inject", `{}`},
		{"POST", "/inject", `{"fault": "lost reply"}`},
		{"POST", "/inject", `{"fault": "lose reply", "nth": -1}`},
		{"POST", "/inject", `{"fault": "lose reply", "ops": ["get"]}`},
		{"POST", "/inject", `{"fault": "lose reply", "session": "x"}`},
		{"POST", "/inject", `{"fault": "lose reply", "paths": "/a"}`},
		{"POST", "/block", `{"ops": ["get"]}`},
		{"POST", "/delay", `{}`},
		{"POST", "/delay", `{"by": "-1s"}`},
		{"POST", "/delay", `{"by": "1s", "ops": [""]}`},
		{"POST", "/clock", `{}`},
		{"POST", "/clock", `{"advance": "soon"}`},
		{"PUT", "/node", `{"path": "a"}`},
		{"PUT", "/node", `{"path": "/a", "owner": "0x1"}`},
		{"PUT", "/node", `{"path": "/a", "txt": "x"}`},
		{"POST", "/nodes", `{"nodes": [{"path": "/a", "ttl": "x"}]}`},
		{"DELETE", "/node?path=/zookeeper", ""},
	} {
		code, out := p.ask(c[0], c[1], c[2])
		assert.Equal(t, http.StatusBadRequest, code, c)
		assert.NotEmpty(t, out["error"], c)
	}
	handle := p.do("POST", "/delay", `{"by": "1s"}`)["id"].(string)
	require.Equal(t, http.StatusBadRequest, p.status("GET", "/handles/"+handle+"?wait=x", ""))
	for _, path := range []string{"/node?path=/none", "/handles/99"} {
		for _, method := range []string{"GET", "DELETE"} {
			assert.Equal(t, http.StatusNotFound, p.status(method, path, ""), path)
		}
	}
	require.Empty(t, p.server.Tree())
}

// TestAnUnknownRequestIsAnsweredLikeAnyOther: in JSON.
func TestAnUnknownRequestIsAnsweredLikeAnyOther(t *testing.T) {
	p := open(t, zktest.NewServer(t))
	// /expire is a POST
	for _, request := range [][]string{{"GET", "/nowhere"}, {"GET", "/expire"}} {
		code, out := p.ask(request[0], request[1], "")
		assert.Equal(t, http.StatusNotFound, code)
		assert.Contains(t, out["error"], "no such request: "+request[0]+" "+request[1])
	}
}

func TestWebPagesAreRefused(t *testing.T) {
	server := zktest.NewServer(t)
	flush := func(change func(*http.Request)) (status int) {
		r := httptest.NewRequest("POST", "http://127.0.0.1:2180/flush", nil)
		change(r)
		w := httptest.NewRecorder()
		control.Handler(server).ServeHTTP(w, r)
		return w.Code
	}
	for name, change := range map[string]func(*http.Request){
		"origin":    func(r *http.Request) { r.Header.Set("Origin", "http://example.org") },
		"rebinding": func(r *http.Request) { r.Host = "example.org:2180" },
	} {
		require.Equal(t, http.StatusForbidden, flush(change), name)
	}
	for _, host := range []string{"localhost:2180", "127.0.0.1", "[::1]:2180", "[::1]"} {
		require.Equal(t, http.StatusOK, flush(func(r *http.Request) { r.Host = host }), host)
	}
}
