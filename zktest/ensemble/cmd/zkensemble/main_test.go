//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest/ensemble"
)

// programEnv turns this test program into zkensemble.
const programEnv = "CURATOR_TEST_BE_ZKENSEMBLE"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0) // a remover
	}
	os.Exit(m.Run())
}

// zkensemble is the program with these arguments.
func zkensemble(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	return cmd
}

func ignore(int) error { return nil }

func needDocker(t *testing.T) {
	t.Helper()
	err := ensemble.Sweep(t.Context())
	if errors.Is(err, ensemble.ErrNoDocker) && os.Getenv("CURATOR_TEST_DOCKER") != "1" {
		t.Skipf("LEFT OUT, needs Docker: %v", err)
	}
	require.NotErrorIs(t, err, ensemble.ErrNoDocker)
}

func TestWithoutCommandOrDocker(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "usage: zkensemble -- command"},
		{[]string{"--"}, 2, "usage: zkensemble -- command"},
		{[]string{"--", "true"}, 1, "no Docker engine is running"},
	} {
		cmd := zkensemble(t, c.args...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		assert.Equal(t, c.code, cmd.ProcessState.ExitCode(), c.args)
		assert.Contains(t, string(out), c.says, c.args)
	}
}

func TestExitCodeIsThatOfTheCommand(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "kill -KILL $$": 128 + 9, `test "$` + variable + `" = address`: 0,
	} {
		code, err := runCommand([]string{"sh", "-c", script}, "address", nil, ignore)
		require.NoError(t, err)
		assert.Equal(t, want, code, script)
	}
	code, err := runCommand([]string{"/no such program"}, "address", nil, ignore)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, 1, code)
}

// TestSignalsReachTheWholeCommand has a shell return the exit code of another process, which ends
// with a signal.
func TestSignalsReachTheWholeCommand(t *testing.T) {
	code := signalCommand(t, `trap : TERM
		sh -c 'trap "exit 6" TERM; echo >"$0"; while :; do sleep 0.01; done' "$0" &
		wait $! # until the signal
		wait $!`, syscall.SIGTERM)
	require.Equal(t, 6, code)
}

func TestSecondSignalKills(t *testing.T) {
	code := signalCommand(t, `trap '' TERM; echo >"$0"; while :; do sleep 0.01; done`, syscall.SIGTERM, syscall.SIGTERM)
	require.Equal(t, 128+9, code)
}

// signalCommand runs a script that writes to the file $0 when it is ready for signals, and returns
// its exit code.
func signalCommand(t *testing.T, script string, list ...os.Signal) int {
	t.Helper()
	ready := t.TempDir() + "/ready"
	require.NoError(t, syscall.Mkfifo(ready, 0o600))
	signals := make(chan os.Signal, len(list))
	go func() { // ends when the script is ready
		_, err := os.ReadFile(ready)
		assert.NoError(t, err)
		for _, s := range list {
			signals <- s
		}
	}()
	code, err := runCommand([]string{"sh", "-c", script, ready}, "address", signals, ignore)
	require.NoError(t, err)
	return code
}

// TestNothingIsLeft ends zkensemble, or its client, while an ensemble runs.
func TestNothingIsLeft(t *testing.T) {
	needDocker(t)
	for name, end := range map[string]func(p *program) (code int){
		"by SIGTERM": func(p *program) int { p.signal(syscall.SIGTERM); return 128 + 15 },
		"by SIGKILL": func(p *program) int { p.signal(syscall.SIGKILL); return -1 },
		"its client has gone": func(p *program) int {
			require.NoError(p.t, p.answer.Body.Close())
			p.waitForRemoval()
			p.signal(syscall.SIGTERM)
			return 128 + 15
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProgram(t)
			require.Equal(t, 1, p.containers())
			code := end(p)
			p.cmd.WaitDelay = time.Minute
			_ = p.cmd.Wait() // until the command has ended, too: it has our pipes
			require.Equal(t, code, p.cmd.ProcessState.ExitCode(), p.stderr.String())
			if code != -1 {
				require.Zero(t, p.containers(), "all is removed before the end")
			}
			p.waitForRemoval()
		})
	}
}

// program is a zkensemble that runs, and an ensemble of one server that a client has started.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr output
	docker *docker.Client
	answer *http.Response
}

// output is what a program has written, even while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func startProgram(t *testing.T) *program {
	p := &program{t: t, cmd: zkensemble(t, "--", "sh", "-c", "echo $"+variable+"; exec sleep 1000")}
	var err error
	p.docker, err = docker.NewClientFromEnv()
	require.NoError(t, err)
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }) // if the test has failed
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, p.stderr.String())
	p.answer, err = http.Post(strings.TrimSpace(address)+"/ensembles", "", strings.NewReader(`{"servers":1}`))
	require.NoError(t, err)
	t.Cleanup(func() { p.answer.Body.Close() })
	_, err = bufio.NewReader(p.answer.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, p.answer.StatusCode)
	return p
}

func (p *program) signal(s syscall.Signal) {
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// containers counts the program's containers.
func (p *program) containers() int {
	host, err := os.Hostname()
	require.NoError(p.t, err)
	list, err := p.docker.ListContainers(docker.ListContainersOptions{All: true, Filters: map[string][]string{
		"label": {fmt.Sprintf("io.gocurator.owner=%s:%d", host, p.cmd.Process.Pid)},
	}})
	require.NoError(p.t, err)
	return len(list)
}

func (p *program) waitForRemoval() {
	require.Eventually(p.t, func() bool { return p.containers() == 0 }, 10*time.Minute, 50*time.Millisecond)
}
