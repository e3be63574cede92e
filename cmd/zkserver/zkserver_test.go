package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/cmd/internal/clitest"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/admin"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/transcript"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/sasl"
	"github.com/gocurator/curator/zktest"
)

// zkserver runs the program until ctx ends.
func zkserver(ctx context.Context, args []string, out, stderr io.Writer) int {
	a := newApp(out, stderr)
	return a.Execute(ctx, root(a), args)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a zkserver that runs until the test ends.
type program struct {
	t         *testing.T
	addresses []string
	control   string // http://host:port
	out       *testbed.Output
}

// run starts zkserver with a control port, and waits until it serves.
func run(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, out: &testbed.Output{}}
	ctx, cancel := context.WithCancel(t.Context())
	stderr := &testbed.Output{}
	ended := testbed.Go(func() int { return zkserver(ctx, append(args, "--control", "127.0.0.1:0"), p.out, stderr) })
	t.Cleanup(func() {
		cancel()
		require.Zero(t, <-ended, stderr)
		http.DefaultClient.CloseIdleConnections()
	})
	testbed.Eventually(t, func() bool {
		return strings.Contains(p.out.String(), "control port at") || len(ended) > 0
	}, "zkserver starts")
	for _, m := range regexp.MustCompile(`serving ZooKeeper on (\S+),`).FindAllStringSubmatch(p.out.String(), -1) {
		p.addresses = append(p.addresses, m[1])
	}
	m := regexp.MustCompile(`control port at (\S+)`).FindStringSubmatch(p.out.String())
	require.NotNil(t, m, stderr)
	p.control = m[1]
	return p
}

// ask sends a request to the control port.
func (p *program) ask(method, path, body string) string {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.control+path, strings.NewReader(body))
	require.NoError(p.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text := testbed.Must(io.ReadAll(response.Body))
	require.Equal(p.t, http.StatusOK, response.StatusCode, "%s %s: %s", method, path, text)
	return string(text)
}

// connect opens a session, and waits for it.
func connect(t *testing.T, servers ...string) *zk.Conn {
	t.Helper()
	return dial(t, net.DialTimeout, servers...)
}

// dial is connect by connections of another kind.
func dial(t *testing.T, dial zk.Dialer, servers ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(servers, 8*time.Second, zk.WithLogger(quiet{}), zk.WithDialer(dial))
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

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func TestServesSeveralAddressesThatStopOneByOne(t *testing.T) {
	p := run(t, "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0")
	require.Len(t, p.addresses, 2)
	conn := connect(t, p.addresses...)
	require.NoError(t, testbed.Err(conn.Create("/a", []byte("x"), 0, zk.WorldACL(zk.PermAll))))
	id := conn.SessionID()
	p.ask("POST", "/stop", `{"addr": "`+p.addresses[0]+`"}`)
	require.Error(t, testbed.Err(net.Dial("tcp", p.addresses[0])))
	testbed.Eventually(t, func() bool {
		_, _, err := conn.Get("/a")
		return err == nil
	}, "the other server is used")
	require.Equal(t, id, conn.SessionID())
	require.Equal(t, p.addresses[1], conn.Server())
}

func TestFlagsBecomeOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"nodes": [{"path": "/loaded/node", "text": "x"}, {"path": "/ttl", "ttl": "1ms"}]}`), 0o600))
	p := run(t, "--listen", "127.0.0.1:0", "--tick", "1s", "--min-session", "5s", "--words", "conf, ruok", "--ttl", "--load", file,
		"--super-digest", zktest.Digest("super:secret"), "--quotas", "--max-buffer", "2000", "--latency", "20ms", "--container-check", "1h")
	conf := word(t, p.addresses[0], "conf")
	for _, want := range []string{"tickTime=1000", "minSessionTimeout=5000", "maxSessionTimeout=20000"} {
		require.Contains(t, conf, want)
	}
	require.Contains(t, word(t, p.addresses[0], "envi"), "whitelist")
	require.Contains(t, p.ask("GET", "/nodes", ""), `"/ttl"`, "it is not looked for yet")
	p.ask("POST", "/reap", "")
	require.NotContains(t, p.ask("GET", "/nodes", ""), `"/ttl"`)

	began := time.Now()
	conn := connect(t, p.addresses[0])
	require.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)
	data, _, err := conn.Get("/loaded/node")
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	require.NoError(t, testbed.Err(conn.CreateTTL("/t", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), time.Hour)))
	require.NoError(t, testbed.Err(conn.Create("/closed", nil, 0, zk.DigestACL(zk.PermAll, "no", "body"))))
	require.ErrorIs(t, testbed.Err(conn.Set("/closed", nil, -1)), zk.ErrNoAuth)
	require.NoError(t, conn.AddAuth("digest", []byte("super:secret")))
	require.NoError(t, testbed.Err(conn.Set("/closed", nil, -1)))
	p.ask("PUT", "/node", `{"path": "/zookeeper/quota/closed/zookeeper_limits", "text": "countHardLimit=1"}`)
	p.ask("PUT", "/node", `{"path": "/zookeeper/quota/closed/zookeeper_stats", "text": ""}`)
	require.ErrorContains(t, testbed.Err(conn.Create("/closed/child", nil, 0, zk.WorldACL(zk.PermAll))), "-125")
	require.Error(t, testbed.Err(conn.Set("/closed", make([]byte, 2000), -1)), "too long")
}

func TestSomeServersKnowLess(t *testing.T) {
	p := run(t, "--listen", "127.0.0.1:0", "--keeper", "new", "--reconfig", "--no-containers")
	conn := connect(t, p.addresses[0])
	require.Error(t, testbed.Err(conn.CreateContainer("/c", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll))))
	require.Contains(t, p.ask("GET", "/node?path=/keeper/config", ""), p.addresses[0])
}

func TestUsersOfSASL(t *testing.T) {
	p := run(t, "--listen", "127.0.0.1:0", "--sasl", "user:se:cret", "--sasl", "other:secret2", "--require-sasl")
	for user, password := range map[string]string{"user": "se:cret", "other": "secret2"} {
		client := testbed.NewClient(t, p.addresses, framework.WithSASL(sasl.DigestMD5(user, password)))
		who, err := admin.WhoAmI(t.Context(), client)
		require.NoError(t, err)
		require.Contains(t, who, admin.Identity{Scheme: "sasl", User: user})
	}
	client := testbed.NewClient(t, p.addresses, framework.WithRetryPolicy(retry.Never()))
	require.ErrorIs(t, testbed.Err(client.Get(t.Context(), "/")), framework.ErrAuthRequired)
}

func word(t *testing.T, addr, word string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, testbed.Err(io.WriteString(conn, word)))
	text := testbed.Must(io.ReadAll(conn))
	return string(text)
}

func TestTLSWithClientsCertificates(t *testing.T) {
	cert := clitest.NewCertificate(t, "127.0.0.1")
	file := cert.CertFile
	p := run(t, "--tls-listen", "127.0.0.1:0", "--tls-cert", file, "--tls-key", cert.KeyFile, "--tls-clients", file)
	require.Len(t, p.addresses, 1, "no other address")
	config := &tls.Config{RootCAs: cert.Pool, Certificates: []tls.Certificate{cert.Certificate}}
	secure := func(network, addr string, _ time.Duration) (net.Conn, error) { return tls.Dial(network, addr, config) }
	dial(t, secure, p.addresses[0])
	conn, err := tls.Dial("tcp", p.addresses[0], &tls.Config{RootCAs: cert.Pool})
	if err == nil {
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	require.ErrorContains(t, err, "certificate", "a client without one")
}

func TestWhatIsWrongOnTheCommandLineIsSaidInOneLine(t *testing.T) {
	taken := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer taken.Close()
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte(`{"nodes": [{"path": "x"}]}`), 0o600))
	c := clitest.NewCertificate(t, "127.0.0.1")
	cert, key := c.CertFile, c.KeyFile
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"--nothing":                         {cli.ExitUsage, "--nothing"},
		"more":                              {cli.ExitUsage, `"more"`},
		"--tick soon":                       {cli.ExitUsage, "tick"},
		"--tick -1s":                        {cli.ExitUsage, "tick"},
		"--max-session 1s":                  {cli.ExitUsage, "session"},
		"--max-buffer 1":                    {cli.ExitUsage, "buffer"},
		"--words xxxx":                      {cli.ExitUsage, "xxxx"},
		"--super-digest x":                  {cli.ExitUsage, "digest"},
		"--sasl nobody":                     {cli.ExitUsage, "user:password"},
		"--sasl :secret":                    {cli.ExitUsage, "user:password"},
		"--require-sasl":                    {cli.ExitUsage, "--sasl"},
		"--keeper ancient":                  {cli.ExitUsage, "ancient"},
		"--latency -1s":                     {cli.ExitUsage, "latency"},
		"--tls-listen 127.0.0.1:0":          {cli.ExitUsage, "--tls-cert"},
		"--control 2180":                    {cli.ExitUsage, "2180"},
		"--control 0.0.0.0:0":               {cli.ExitUsage, "loopback"},
		"--control :2180":                   {cli.ExitUsage, "loopback"},
		"--control example.org:2180":        {cli.ExitUsage, "loopback"},
		"--listen " + taken.Addr().String(): {cli.ExitUnavailable, "in use"},
		"--listen 127.0.0.1:0 --control " + taken.Addr().String():                                        {cli.ExitUnavailable, "in use"},
		"--listen 127.0.0.1:0 --load " + broken:                                                          {cli.ExitUnavailable, "load x"},
		"--listen 127.0.0.1:0 --load /no/such/file":                                                      {cli.ExitUnavailable, "/no/such/file"},
		"--tls-listen 127.0.0.1:0 --tls-cert /no/such/file --tls-key x":                                  {cli.ExitUnavailable, "/no/such/file"},
		"--tls-listen 127.0.0.1:0 --tls-cert " + cert + " --tls-key " + key + " --tls-clients " + broken: {cli.ExitUnavailable, "no certificate"},
	} {
		t.Run(line, func(t *testing.T) {
			out, stderr := &testbed.Output{}, &testbed.Output{}
			assert.Equal(t, want.code, zkserver(testbed.Context(t), strings.Fields(line), out, stderr))
			assert.Regexp(t, `^zkserver: [^\n]*\n$`, stderr.String())
			assert.Contains(t, stderr.String(), want.says)
			assert.NotContains(t, stderr.String(), "zktest")
		})
	}
	help := &testbed.Output{}
	require.Zero(t, zkserver(t.Context(), []string{"-h"}, help, io.Discard))
	require.Contains(t, help.String(), "Usage:")
	require.Contains(t, help.String(), "--super-digest")
}

// TestReadmeListsAllThatThereIs compares the tables with the flags and with what the control port
// offers.
func TestReadmeListsAllThatThereIs(t *testing.T) {
	text := testbed.Must(os.ReadFile("README.md"))
	var offers []struct{ Method, Path, Does string }
	require.NoError(t, json.Unmarshal([]byte(run(t, "--listen", "127.0.0.1:0").ask("GET", "/", "")), &offers))
	for _, o := range offers {
		assert.Contains(t, string(text), fmt.Sprintf("| `%s %s` | %s |\n", o.Method, o.Path, o.Does))
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(flags).define(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		assert.Contains(t, string(text), fmt.Sprintf("| `--%s` | %s |\n", f.Name, strings.ReplaceAll(usage, "*", `\*`)))
	})
}

// TestReadmesRequestsWork sends the curl requests of the README.
func TestReadmesRequestsWork(t *testing.T) {
	p := run(t, "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0")
	sent := 0
	curl := regexp.MustCompile(`^curl (?:-X (\S+) )?(?:-d '([^']*)' )?"?http://127\.0\.0\.1:2180(/[^\s"]*)"?$`)
	for _, block := range transcript.Blocks(t, "README.md", "sh") {
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			m := curl.FindStringSubmatch(line)
			require.NotNil(t, m, line)
			method, body := m[1], strings.ReplaceAll(m[2], "127.0.0.1:2181", p.addresses[0])
			switch {
			case method != "":
			case body != "":
				method = "POST"
			default:
				method = "GET"
			}
			p.ask(method, m[3], body)
			sent++
		}
	}
	require.Greater(t, sent, 10)
}
