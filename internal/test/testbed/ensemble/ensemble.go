// Package ensemble starts real ZooKeeper ensembles for the tests of this module. It asks the
// control server of zktest/ensemble/cmd/zkensemble for them, so that this module does not depend on
// a Docker client:
//
//	go run ./zktest/ensemble/cmd/zkensemble -- go test ./...
package ensemble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Variable is the environment variable with the address of the control server.
const Variable = "CURATOR_TEST_ENSEMBLE"

// startTimeout ends a start that hangs, longer than the control server's own limit: a loaded
// machine needs minutes.
const startTimeout = 25 * time.Minute

// T is the part of *testing.T that an ensemble needs.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Option configures an ensemble.
type Option func(*order)

// order is the request to the control server.
type order struct {
	Servers    int               `json:"servers,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	Files      map[string]string `json:"files,omitempty"`
	Shared     bool              `json:"shared,omitempty"`
}

// WithServers sets how many servers there are. The default is 3; 1 is a standalone server.
func WithServers(n int) Option { return func(o *order) { o.Servers = n } }

// WithEnv sets an environment variable of the containers.
func WithEnv(name, value string) Option {
	return func(o *order) {
		if o.Env == nil {
			o.Env = make(map[string]string)
		}
		o.Env[name] = value
	}
}

// WithProperties sets properties of the servers, as zktest.WithProperties.
func WithProperties(properties map[string]string) Option {
	return func(o *order) { o.Properties = properties }
}

// WithFile puts a file into the containers.
func WithFile(path, content string) Option {
	return func(o *order) {
		if o.Files == nil {
			o.Files = make(map[string]string)
		}
		o.Files[path] = content
	}
}

// Shared lets the test use an ensemble that other packages use at the same time. The test must not
// break its servers, and must use its own paths. No other option may be combined with it.
func Shared() Option { return func(o *order) { o.Shared = true } }

// Ensemble is a running ensemble. Its methods correspond to zktest/ensemble.Ensemble's. They are
// safe for concurrent use, and fail when the test has ended.
type Ensemble struct {
	url     string
	servers []string
	client  *http.Client
	ctx     context.Context // the context for methods that take none
	cancel  context.CancelFunc
	lease   io.Closer // the reply to the start: the ensemble is removed when its connection ends
}

// New starts an ensemble for a test and waits until it has a quorum. It is removed when the test
// ends, even when the process of the test crashes. Without a control server the test is skipped.
func New(t T, opts ...Option) *Ensemble {
	t.Helper()
	address := os.Getenv(Variable)
	if address == "" {
		t.Skipf("LEFT OUT, needs real servers: `make test` runs it where there is a Docker engine, as does\n"+
			"go run ./zktest/ensemble/cmd/zkensemble -- go test ... (%s is not set)", Variable)
	}
	e, err := start(address, opts)
	if err != nil {
		t.Fatalf("ensemble: %v", err)
	}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Errorf("ensemble: cannot be removed: %v", err)
		}
	})
	return e
}

func start(address string, opts []Option) (*Ensemble, error) {
	var o order
	for _, opt := range opts {
		opt(&o)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	e := &Ensemble{client: &http.Client{Transport: &http.Transport{}}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	tooLong := time.AfterFunc(startTimeout, e.cancel)
	defer tooLong.Stop()
	response, err := e.send(e.ctx, http.MethodPost, address+"/ensembles", string(body))
	if err != nil {
		e.cancel()
		return nil, err
	}
	e.lease = response.Body
	var started struct {
		ID      string   `json:"id"`
		Servers []string `json:"servers"`
	}
	if err := json.NewDecoder(response.Body).Decode(&started); err != nil {
		return nil, errors.Join(err, e.hangUp())
	}
	e.url, e.servers = address+"/ensembles/"+started.ID, started.Servers
	return e, nil
}

// close removes the ensemble, and returns when it is removed.
func (e *Ensemble) close() error {
	response, err := e.send(e.ctx, http.MethodDelete, e.url, "")
	if err == nil {
		err = response.Body.Close()
	}
	return errors.Join(err, e.hangUp())
}

// hangUp ends the connections, and with them the ensemble if it still exists.
func (e *Ensemble) hangUp() error {
	err := e.lease.Close()
	e.cancel()
	e.client.CloseIdleConnections()
	return err
}

// Servers returns the addresses at which clients reach the servers.
func (e *Ensemble) Servers() []string { return e.servers }

// Size returns the number of servers, running or not.
func (e *Ensemble) Size() int { return len(e.servers) }

// StartServer starts a server that was stopped or killed. It does not wait for the server to serve.
func (e *Ensemble) StartServer(i int) error { return e.onServer("start-server", i) }

// StopServer shuts a server down.
func (e *Ensemble) StopServer(i int) error { return e.onServer("stop-server", i) }

// KillServer kills a server's process (SIGKILL).
func (e *Ensemble) KillServer(i int) error { return e.onServer("kill-server", i) }

// PauseServer stops a server's process (SIGSTOP); its connections stay.
func (e *Ensemble) PauseServer(i int) error { return e.onServer("pause-server", i) }

// ResumeServer continues a paused server.
func (e *Ensemble) ResumeServer(i int) error { return e.onServer("resume-server", i) }

// Partition cuts a server off from its peers. Clients still reach it.
func (e *Ensemble) Partition(i int) error { return e.onServer("partition", i) }

// Freeze stops all traffic between clients and a server, in both directions, and closes nothing.
func (e *Ensemble) Freeze(i int) error { return e.onServer("freeze", i) }

// CutConnections closes the connections of all clients of a server. They may reconnect at once.
func (e *Ensemble) CutConnections(i int) error { return e.onServer("cut-connections", i) }

// RefuseConnections lets a server refuse new connections of clients. Existing ones continue.
func (e *Ensemble) RefuseConnections(i int) error { return e.onServer("refuse-connections", i) }

// Heal ends all partitions and freezes, and lets all servers accept connections.
func (e *Ensemble) Heal() error {
	_, err := e.call(e.ctx, "heal")
	return err
}

// ExpireSession expires any client's session, and returns when it has expired.
func (e *Ensemble) ExpireSession(ctx context.Context, id int64) error {
	_, err := e.call(ctx, "expire-session?n="+strconv.FormatInt(id, 10))
	return err
}

// WaitForQuorum returns when the ensemble has a leader, and every server that runs and can be
// reached serves.
func (e *Ensemble) WaitForQuorum(ctx context.Context) error {
	_, err := e.call(ctx, "wait-for-quorum")
	return err
}

// Leader waits for a leader and returns its number.
func (e *Ensemble) Leader(ctx context.Context) (int, error) {
	answer, err := e.call(ctx, "leader")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(answer)
}

func (e *Ensemble) onServer(action string, i int) error {
	_, err := e.call(e.ctx, action+"?n="+strconv.Itoa(i))
	return err
}

// call requests an action and returns the reply.
func (e *Ensemble) call(ctx context.Context, action string) (answer string, err error) {
	response, err := e.send(ctx, http.MethodPost, e.url+"/"+action, "")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return strings.TrimSpace(string(text)), err
}

// send sends a request. The error of a failed request has the server's text.
func (e *Ensemble) send(ctx context.Context, method, url, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := e.client.Do(request)
	if err != nil || response.StatusCode < 400 {
		return response, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return nil, errors.Join(fmt.Errorf("%s", strings.TrimSpace(string(text))), err)
}
