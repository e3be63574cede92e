//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/cmd/internal/clitest"
	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/internal/test/transcript"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

// The tests run zklock as its users do: in processes of its own. The test binary is zklock when
// this is in its environment.
const beZklock = "ZKLOCK_TEST_MAIN"

// tidies makes a zklock give the rest of a process group a minute to end by itself. No test that
// sets it leaves a process behind.
const tidies = "ZKLOCK_TEST_TIDIES"

// giveTerminalTo is in the environment of a test binary that gives the terminal to the process
// group of this process.
const giveTerminalTo = "ZKLOCK_TEST_GIVE_TERMINAL_TO"

// endDead is in the environment of a test binary that ends a command which has ended by itself. It
// is a process of its own, since it waits for all children.
const endDead = "ZKLOCK_TEST_END_DEAD"

// lateSignal is in the environment of a test binary that runs "echo in" at /lock, and whose context
// no signal ends: as if the goroutine that receives them for it had not run yet. It names the file
// that is created when all other receivers have received the signal.
const lateSignal = "ZKLOCK_TEST_LATE_SIGNAL"

func runWithLateSignal(received string) (code int) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, cli.EndSignals()...)
	go func() { // ends with the program
		<-signals
		signal.Stop(signals) // returns when the signal has been sent to all channels
		if err := os.WriteFile(received, []byte("yes\n"), 0o600); err != nil {
			panic(err)
		}
	}()
	t, r, ctx := newApp(os.Stdout, os.Stderr), &run{}, context.Background()
	if err := parse(r); err != nil {
		panic(err)
	}
	j, err := newJob([]string{"/lock", "echo", "in"})
	if err != nil {
		panic(err)
	}
	client, err := r.connect(ctx, t, r.percent(), "late signal")
	if err != nil {
		panic(err)
	}
	defer client.Close()
	q, hold, err := r.enter(ctx, t, client, j.path)
	if err != nil {
		panic(err)
	}
	defer hold.Release()
	var end *cli.Exit
	if errors.As(r.hold(ctx, t, q, hold, j), &end) {
		return end.Code
	}
	return 0
}

// parse gives a command its flags, and checks them.
func parse(c interface {
	command
	check() error
}, flags ...string) error {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.flags(newApp(io.Discard, io.Discard), fs)
	if err := fs.Parse(flags); err != nil {
		return err
	}
	return c.check()
}

// zklock runs the program in the test's process.
func zklock(args []string, out, stderr io.Writer) int {
	a := newApp(out, stderr)
	return a.Execute(context.Background(), root(a), args)
}

func TestMain(m *testing.M) {
	if received := os.Getenv(lateSignal); received != "" {
		os.Exit(runWithLateSignal(received))
	}
	if os.Getenv(endDead) != "" {
		c, err := startChild("/bin/sh", []string{"sh", "-c", "exit 3"}, nil)
		if err != nil {
			panic(err)
		}
		<-c.done
		c.end(true, time.Minute, nil)
		os.Exit(c.code())
	}
	if pid, err := strconv.Atoi(os.Getenv(giveTerminalTo)); err == nil {
		group, _ := syscall.Getpgid(pid)
		openTerminal().give(group)
		return
	}
	if os.Getenv(beZklock) != "" {
		if os.Getenv(tidies) != "" {
			tidyTimeout = time.Minute
		}
		main()
	}
	goleak.VerifyTestMain(m)
}

// process is a running program with its output.
type process struct {
	*exec.Cmd
	out, err testbed.Output
}

// prepare returns a zklock with these arguments that is not started.
func prepare(t *testing.T, servers []string, args ...string) *process {
	return program(t, servers, os.Args[0], args...)
}

// program is a program in which $ZKLOCK is zklock.
func program(t *testing.T, servers []string, name string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), name, args...)}
	// With -race, a program sleeps for a second before it ends, unless this is set.
	p.Env = append(os.Environ(), beZklock+"=1", "GORACE=atexit_sleep_ms=0", "ZKLOCK="+os.Args[0], "ZKLOCK_SERVERS="+strings.Join(servers, ","))
	p.Stdout, p.Stderr = &p.out, &p.err
	p.WaitDelay = time.Second // a command that outlives its zklock keeps the pipes open
	return p
}

// start starts p, and kills it at the end of the test.
func start(t *testing.T, p *process) *process {
	t.Helper()
	clitest.Start(t, p.Cmd)
	return p
}

// spawn starts zklock with these arguments.
func spawn(t *testing.T, server *zktest.Server, args ...string) *process {
	t.Helper()
	return start(t, prepare(t, server.Servers(), args...))
}

// end waits for a process that was started, and returns its exit code.
func (p *process) end() int { return clitest.End(p.Cmd) }

// endBy sends a process a signal, and returns its exit code.
func (p *process) endBy(t *testing.T, s os.Signal) int {
	t.Helper()
	require.NoError(t, p.Process.Signal(s))
	return p.end()
}

// unavailable runs a verb with a server to which zklock does not connect. On a slow machine the limit
// of the connection doubles until zklock knows why.
func unavailable(t *testing.T, address string, limit time.Duration, args ...string) *process {
	t.Helper()
	for ; ; limit *= 2 {
		require.Less(t, limit, time.Hour)
		all := with(args[0], []string{"--connect", limit.String()}, args[1:]...)
		p := start(t, prepare(t, []string{address}, all...))
		require.Equal(t, cli.ExitUnavailable, p.end(), all)
		if !strings.Contains(p.err.String(), "no server answers at "+address+": no server has refused or answered") {
			return p
		}
	}
}

// call runs zklock to its end.
func call(t *testing.T, server *zktest.Server, args ...string) (code int, out, stderr string) {
	t.Helper()
	p := spawn(t, server, args...)
	code = p.end()
	return code, p.out.String(), p.err.String()
}

// succeeds runs zklock to its end, which must be good, and returns its output.
func succeeds(t *testing.T, server *zktest.Server, args ...string) (out string) {
	t.Helper()
	code, out, stderr := call(t, server, args...)
	require.Zero(t, code, "%q: %s", args, stderr)
	return out
}

// refuses runs zklock to its end, which must have this exit code, this text on standard error, and
// no output.
func refuses(t *testing.T, server *zktest.Server, want int, says string, args ...string) {
	t.Helper()
	code, out, stderr := call(t, server, args...)
	assert.Equal(t, want, code, "%q: %s", args, stderr)
	assert.Empty(t, out, args)
	assert.Contains(t, stderr, says, args)
}

// with returns a command line with flags behind the verb.
func with(verb string, flags []string, args ...string) []string {
	return slices.Concat([]string{verb}, flags, args)
}

func newClient(t *testing.T, server *zktest.Server) *framework.Client {
	t.Helper()
	return testbed.On(server).Client(t)
}

// newMutex returns a mutex of a client of its own.
func newMutex(t *testing.T, server *zktest.Server, path string, opts ...lock.Option) *mutex.Mutex {
	t.Helper()
	return testbed.Must(mutex.New(newClient(t, server), path, opts...))
}

// sayPid is a shell command that writes its process id, so that the test sees that it runs.
func sayPid(file string) string { return "echo $$ > " + file + "; " }

// TestBadCommandLines: the error is one line, which names the faulty argument.
func TestBadCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                                          "a command is missing",
		"lock /a -- true":                           `unknown command "lock"`,
		"/a true":                                   "a command is missing before the path, as in zklock run /a true",
		"version x":                                 `unknown command "x"`,
		"man run --dir pages":                       "--dir and a command cannot be combined",
		"serve":                                     "",
		"run":                                       "",
		"run /a":                                    "",
		"run /a --":                                 "",
		"run a -- true":                             "",
		"run / -- true":                             "",
		"run /a/ -- true":                           "",
		"run -nonsense /a -- true":                  "",
		"run -r / true":                             "",
		"run --read --write /a -- true":             "",
		"run --read --permits 2 /a -- true":         "",
		"run --permits -1 /a -- true":               "",
		"run --permits 0 /a -- true":                "must be an integer from 1",
		"run --permits many /a -- true":             "",
		"run --try --wait 1s /a -- true":            "",
		"run --wait -1s /a -- true":                 "",
		"run --wait 10 /a -- true":                  "missing unit, as in 10s",
		"run -w 1h1 /a true":                        "a number with a unit",
		"run -wait 10s /a -- true":                  "",
		"run -try /a -- true":                       "",
		"run /a --try -- true":                      "flags must precede the path: --try",
		"run /a --try true":                         "flags must precede the path: --try",
		"run /a --wait 3s sh":                       "flags must precede the path: --wait",
		"run --on-loss pray /a -- true":             "",
		"run --grace -1s /a -- true":                "",
		"run --session 4s --grace 3s /a true":       "",
		"run --session 0s --grace 0s /a true":       "",
		"run --servers :0 /a -- true":               "",
		"run --servers , /a true":                   "",
		"run --servers= /a true":                    "--servers is empty",
		"run --namespace /a /a -- true":             "",
		"run --servers z/a/ --namespace /b /a true": "",
		"run --connect 0s /a true":                  "",
		"run -E 256 /a true":                        "",
		"run --exit-code -1 /a true":                "",
		"hold":                                      "",
		"hold /a true":                              "",
		"hold --permits 0 /a":                       "",
		"ls":                                        "",
		"ls a":                                      "",
		"ls /a /b":                                  `unexpected argument "/b"`,
		"ls --auth= /a":                             "--auth is empty",
		"ls --connect -1s /a":                       "",
		"ls --recursive":                            "",
		"ls -r a":                                   "",
		"revoke":                                    "",
		"revoke --force -1s /a":                     "",
		"revoke --force soon /a":                    "",
		"elect":                                     "",
		"elect /a":                                  "",
		"elect / true":                              "",
		"elect --try /a true":                       "",
		"elect --on-loss ignore /a true":            "",
		"elect --session 4s --grace 3s /a true":     "",
		"elect --session 0s --grace 0s /a true":     "",
		"elect --id= /a true":                       "--id is empty",
		"elect --id \xff /a true":                   "",
		"elect /a --id x -- true":                   "flags must precede the path: --id",
		"elect /a --selector -- true":               "flags must precede the path: --selector",
	} {
		t.Run(line, func(t *testing.T) {
			var out, stderr bytes.Buffer
			assert.Equal(t, cli.ExitUsage, zklock(strings.Fields(line), &out, &stderr))
			assert.Regexp(t, `^zklock: [^\n]+ --help lists [^\n]+\n$`, stderr.String(), "one line says what is wrong")
			assert.Contains(t, stderr.String(), want)
			assert.Empty(t, out.String())
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for want, lines := range map[string][]string{
		"Usage:": {
			"help", "-h", "run -h", "ls -h", "revoke -h", "hold --help", "elect -h", "completion -h", "completion bash -h", "man -h",
		},
		`^zklock \S+ \(go\S+, \w+/\w+\)\n$`: {"version", "-v", "--version"},
	} {
		for _, line := range lines {
			var out, stderr bytes.Buffer
			assert.Zero(t, zklock(strings.Fields(line), &out, &stderr), line)
			assert.Regexp(t, want, out.String(), line)
			assert.Empty(t, stderr.String(), line)
		}
	}
}

// TestExitCodeIsTheCommands: the supervisor of zklock decides whether to restart it. elect does not
// campaign again for a command that cannot be run.
func TestExitCodeIsTheCommands(t *testing.T) {
	server := zktest.NewServer(t)
	dir := t.TempDir()
	text, badShell := filepath.Join(dir, "text"), filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(text, []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(badShell, []byte("#!/no/such/shell\n"), 0o700))
	for _, verb := range []string{"run", "elect"} {
		for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "exit 75": 75, "kill -KILL $$": 137} {
			// Flags behind the command are the command's, also without "--" and if zklock has them.
			code, _, stderr := call(t, server, verb, "/lock", "sh", "-c", script, "--try")
			assert.Equal(t, want, code, script)
			assert.Empty(t, stderr, script)
		}
		for command, want := range map[string]int{
			"no-such-program": cli.ExitNotFound, "--try": cli.ExitNotFound,
			text: cli.ExitCannotRun, dir: cli.ExitCannotRun, badShell: cli.ExitCannotRun,
		} {
			code, _, stderr := call(t, server, verb, "/lock", "--", command)
			assert.Equal(t, want, code, command)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
			assert.Contains(t, stderr, command)
		}
		assertNothingStays(t, server, "/lock")
	}
}

// assertNothingStays waits until no node of a contender, or of a command that runs, is left: the
// nodes of a process that was killed stay until its sessions expire.
func assertNothingStays(t *testing.T, server *zktest.Server, path string) {
	t.Helper()
	for _, dir := range []string{path, path + ".zklock"} {
		testbed.Eventually(t, func() bool {
			children, err := server.Children(dir)
			return err != nil || len(children) == 0
		}, "no node below "+dir)
	}
}

func TestNoServerAnswers(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := unavailable(t, "127.0.0.1:1", time.Second, "run", "/lock", "true")
	assert.Regexp(t, `(?m)^zklock: no server answers at 127.0.0.1:1: .*connection refused\n\z`, p.err.String())

	p = unavailable(t, "no-such-host.invalid", 4*time.Second, "ls", "/lock")
	lines := strings.Split(p.err.String(), "\n")
	require.Len(t, lines, 3, p.err.String())
	assert.Contains(t, lines[0], "waiting for a server at no-such-host.invalid: ", "after 2 s")
	assert.Contains(t, lines[1], "lookup no-such-host.invalid")
}

// TestNoServerSaysWhy: if the connection is lost during a wait, the error does not say that
// another client holds.
func TestNoServerSaysWhy(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	m := newMutex(t, server, "/lock", lock.WithErrorPolicy(connstate.LostEndsHold))
	hold := testbed.Acquire(t, m)
	p := start(t, prepare(t, server.Servers(), "run", "--wait", "10s", "/lock", "true")) // longer than it takes to cut it off
	queued(t, m, 2)
	server.RefuseConnections(true)
	server.CutConnections()
	assert.Equal(t, cli.ExitUnavailable, p.end())
	assert.NotContains(t, p.err.String(), "held by")
	assert.Contains(t, p.err.String(), "cannot read its holders")
	server.RefuseConnections(false)
	_ = hold.Release() // it may be lost
}

func TestNamespace(t *testing.T) {
	server := zktest.NewServer(t)
	several := server.Addr() + "," + server.Addr() + "/app"
	for servers, node := range map[string]string{server.Addr(): "/billing/lock", several: "/app/billing/lock"} {
		command := []string{"/lock", "--", "sh", "-c", "echo $ZKLOCK_PATH"}
		out := succeeds(t, server, with("run", []string{"--servers", servers, "--namespace", "billing"}, command...)...)
		assert.Equal(t, "/lock\n", out)
		assert.True(t, server.Exists(node), node)
	}
}

func TestHold(t *testing.T) {
	server := zktest.NewServer(t)
	holding := func() (p *process, node string) {
		p = spawn(t, server, "hold", "/lock")
		testbed.Eventually(t, func() bool { return strings.HasSuffix(p.out.String(), "\n") }, "it holds")
		fields := strings.Fields(p.out.String())
		require.Len(t, fields, 3)
		assert.Equal(t, "/lock", fields[0])
		assert.True(t, server.Exists(fields[1]))
		assert.Regexp(t, `^[1-9][0-9]*$`, fields[2])
		return p, fields[1]
	}
	p, _ := holding()
	refuses(t, server, exitNotAcquired, "zklock hold", "run", "--try", "/lock", "true")
	assert.Zero(t, p.endBy(t, syscall.SIGTERM), "a signal ended it")
	assertNothingStays(t, server, "/lock")

	p, _ = holding()
	succeeds(t, server, "revoke", "/lock")
	assert.Equal(t, exitAsked, p.end())
	assertNothingStays(t, server, "/lock")

	p, node := holding()
	require.NoError(t, newClient(t, server).Delete(testbed.Context(t), node))
	assert.Equal(t, exitLost, p.end())
	assert.Contains(t, p.err.String(), "lost "+node)
}

// TestNobodyReadsWhatHoldSays: the lock is released at once, not when the session expires.
func TestNobodyReadsWhatHoldSays(t *testing.T) {
	closed := func() *os.File {
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, reader.Close())
		t.Cleanup(func() { writer.Close() })
		return writer
	}
	server := zktest.NewServer(t)
	p := prepare(t, server.Servers(), "hold", "/lock")
	p.Stdout = closed()
	require.Equal(t, cli.ExitUnavailable, start(t, p).end())
	assert.Contains(t, p.err.String(), "broken pipe")
	assertNothingStays(t, server, "/lock")

	p = prepare(t, server.Servers(), "hold", "/lock")
	p.Stderr = closed()
	start(t, p)
	participant(t, server)
	succeeds(t, server, "revoke", "/lock")
	assert.Equal(t, exitAsked, p.end())
	assertNothingStays(t, server, "/lock")
}

// TestEveryFlagIsDocumented: README.md lists the flags and the exit codes.
func TestEveryFlagIsDocumented(t *testing.T) {
	readme := testbed.Must(os.ReadFile("README.md"))
	flags := 0
	for _, c := range root(newApp(io.Discard, io.Discard)).Commands() {
		if c.Name() == "completion" || c.Name() == "man" {
			continue
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			flags++
			assert.Regexp(t, "[`[]--"+f.Name+"[` \\]]", string(readme), "README.md")
		})
	}
	assert.Greater(t, flags, 60)
	for _, code := range []int{cli.ExitUsage, exitNoLock, cli.ExitUnavailable, exitLost, exitNotAcquired, exitConflict, cli.ExitCannotRun, cli.ExitNotFound, exitAsked} {
		assert.Contains(t, string(readme), strconv.Itoa(code))
		assert.Contains(t, exitCodes, strconv.Itoa(code))
	}
}

// TestCompletion sends the requests of a shell.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"ru":           "run",
		"run --perm":   "--permits",
		"ls --js":      "--json",
		"completion f": "fish",
	} {
		var out, stderr bytes.Buffer
		require.Zero(t, zklock(append([]string{"__completeNoDesc"}, strings.Fields(line)...), &out, &stderr), stderr.String())
		assert.Equal(t, want, strings.Split(out.String(), "\n")[0], line)
	}
}

func TestBuildsForWindows(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly) // it compiles the standard library
	p := program(t, nil, "go", "build", "-o", os.DevNull, ".")
	p.Env = append(p.Env, "GOOS=windows", "CGO_ENABLED=0")
	assert.Zero(t, start(t, p).end(), p.err.String())
}

func TestEnvironmentOfTheCommand(t *testing.T) {
	server := zktest.NewServer(t)
	for _, flags := range [][]string{nil, {"--read"}, {"--write"}, {"--permits", "3"}} {
		p := prepare(t, server.Servers(), with("run", flags, "/some/lock", "--", "sh", "-c", "env; cat")...)
		p.Stdin = strings.NewReader("standard input\n")
		require.Zero(t, start(t, p).end(), p.err.String())
		env := map[string]string{}
		for line := range strings.Lines(p.out.String()) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			env[name] = value
		}
		assert.Equal(t, "/some/lock", env["ZKLOCK_PATH"])
		assert.True(t, strings.HasPrefix(env["ZKLOCK_NODE"], "/some/lock/"), env["ZKLOCK_NODE"])
		token, err := strconv.ParseInt(env["ZKLOCK_TOKEN"], 10, 64)
		assert.NoError(t, err)
		assert.Positive(t, token)
		assert.Contains(t, p.out.String(), "standard input")
	}
}

// TestNotAcquired: the message names the holder, and the flag -E the exit code.
func TestNotAcquired(t *testing.T) {
	server := zktest.NewServer(t)
	hold := testbed.Acquire(t, newMutex(t, server, "/lock", lock.WithData([]byte("the nightly job"))))
	for want, flags := range map[int][]string{exitNotAcquired: nil, 8: {"-E", "8"}, 9: {"--exit-code", "9"}} {
		for _, how := range [][]string{{"--try"}, {"-w", "0"}, {"--wait=0s"}, {"--wait", "50ms"}} {
			code, out, stderr := call(t, server, with("run", flags, append(how, "/lock", "echo", "in")...)...)
			assert.Equal(t, want, code, stderr)
			assert.Empty(t, out)
			assert.Regexp(t, `/lock not acquired.*held by the nightly job \(session 0x`, stderr)
		}
	}
	require.NoError(t, hold.Release())
	assertNothingStays(t, server, "/lock")
}

func TestReadersShareAndWritersDoNot(t *testing.T) {
	server := zktest.NewServer(t)
	l := testbed.Must(rwlock.New(newClient(t, server), "/lock"))
	hold := testbed.Acquire(t, l.Read())
	succeeds(t, server, "run", "--try", "--read", "/lock", "true")
	refuses(t, server, exitNotAcquired, "", "run", "--try", "--write", "/lock", "true")
	require.NoError(t, hold.Release())
	succeeds(t, server, "run", "--try", "--write", "/lock", "true")
}

func TestPermits(t *testing.T) {
	server := zktest.NewServer(t)
	s := testbed.Must(semaphore.New(newClient(t, server), "/pool", 2))
	first := testbed.Acquire(t, s)
	succeeds(t, server, "run", "--try", "--permits", "2", "/pool", "true")
	second := testbed.Acquire(t, s)
	refuses(t, server, exitNotAcquired, "and 1 more", "run", "--try", "--permits", "2", "/pool", "true")
	require.NoError(t, first.Release())
	require.NoError(t, second.Release())
}

func TestSignalsReachTheCommandAndWhatItStarted(t *testing.T) {
	server := zktest.NewServer(t)
	file := filepath.Join(t.TempDir(), "pid")
	p := start(t, prepare(t, server.Servers(), "run", "/lock", "sh", "-c",
		"trap 'echo ended; wait; exit 7' USR1; (trap 'echo ended too; exit' USR1; "+sayPid(file)+works+") & "+works))
	clitest.Written(t, file)
	assert.Equal(t, 7, p.endBy(t, syscall.SIGUSR1))
	assert.Contains(t, p.out.String(), "ended\n")
	assert.Contains(t, p.out.String(), "ended too\n")
	assertNothingStays(t, server, "/lock")
}

func TestSignalEndsTheWaiting(t *testing.T) {
	server := zktest.NewServer(t)
	m := newMutex(t, server, "/lock")
	hold := testbed.Acquire(t, m)
	p := spawn(t, server, "run", "/lock", "echo", "in")
	queued(t, m, 2)
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), p.endBy(t, syscall.SIGTERM))
	assert.Empty(t, p.out.String())
	queued(t, m, 1)
	require.NoError(t, hold.Release())
}

// queued waits until the queue has n participants.
func queued(t *testing.T, m *mutex.Mutex, n int) []lock.Participant {
	t.Helper()
	var all []lock.Participant
	testbed.Eventually(t, func() (reached bool) {
		var err error
		all, err = m.Participants(testbed.Context(t))
		return err == nil && len(all) == n
	}, fmt.Sprintf("%d in the queue", n))
	return all
}

// participant waits for the only participant at /lock.
func participant(t *testing.T, server *zktest.Server) lock.Participant {
	t.Helper()
	return queued(t, newMutex(t, server, "/lock"), 1)[0]
}

// works is a shell command that runs until a signal ends it.
const works = "while :; do sleep 0.01; done"

// holder starts a zklock whose command prepares itself and then works, and returns its session. The
// command is prepared by then.
func holder(t *testing.T, server *zktest.Server, prepares, works string, flags ...string) (p *process, session int64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	p = spawn(t, server, with("run", flags, "/lock", "sh", "-c", prepares+"; "+sayPid(file)+works)...)
	clitest.Written(t, file)
	return p, participant(t, server).SessionID
}

func TestLossEndsTheCommand(t *testing.T) {
	const polite, stubborn = "trap 'echo cleaning up; exit 0' TERM", "trap '' TERM"
	for _, c := range []struct {
		name, prepares, works string
		flags                 []string
		code                  int
		out                   string
	}{
		{"politely", polite, works, nil, exitLost, "cleaning up\n"},
		{"by force, after a while", stubborn, works, []string{"--grace", "100ms"}, exitLost, ""},
		{"at once", polite, works, []string{"--on-loss", "kill"}, exitLost, ""},
		{"not at all", ":", "while kill -0 $PPID && [ ! -e done ]; do sleep 0.01; done; exit 4", []string{"--on-loss", "ignore"}, 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := zktest.NewServer(t)
			dir := t.TempDir()
			p, session := holder(t, server, "cd "+dir+"; "+c.prepares, c.works, c.flags...)
			require.NoError(t, server.ExpireSession(session))
			if c.code != exitLost {
				assertNothingStays(t, server, "/lock")
				require.NoError(t, os.WriteFile(filepath.Join(dir, "done"), nil, 0o600))
			}
			assert.Equal(t, c.code, p.end())
			assert.Equal(t, c.out, p.out.String())
			if c.code == exitLost {
				assert.Contains(t, p.err.String(), "lost /lock/_c_")
			}
			assertNothingStays(t, server, "/lock")
		})
	}
}

// TestCommandIsDeadBeforeTheNextOneStarts ends a session by force, so that the next one holds at
// once, while a command does not end.
func TestCommandIsDeadBeforeTheNextOneStarts(t *testing.T) {
	for _, flags := range [][]string{{"--grace", "500ms"}, {"--on-loss", "kill"}} {
		server := zktest.NewServer(t)
		p, session := holder(t, server, "echo $$; trap '' TERM", works, flags...)
		next := spawn(t, server, "run", "/lock", "sh", "-c", "ps -o pid= -o stat= -A")
		m := newMutex(t, server, "/lock")
		queued(t, m, 2)
		require.NoError(t, server.ExpireSession(session))
		require.Zero(t, next.end(), next.err.String())
		assert.Equal(t, exitLost, p.end())
		pid := strings.TrimSpace(p.out.String())
		require.NotEmpty(t, pid)
		for line := range strings.Lines(next.out.String()) {
			if f := strings.Fields(line); f[0] == pid {
				assert.Contains(t, f[1], "Z", "the first command is dead")
			}
		}
		assertNothingStays(t, server, "/lock")
	}
}

// TestShadowOfWhoDoesNotComeBack is about commands whose machine has crashed.
func TestShadowOfWhoDoesNotComeBack(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	client := newClient(t, server)
	shadow := func(text string) {
		testbed.Create(t, client, "/lock.zklock/_c_x-lock-0000000000", []byte(text), framework.ContainerParents())
	}
	shadow(`{"node":"/lock/_c_x-lock-0000000000","holder":"a machine \u001b[2J that crashed","gone_within_ms":3600000}`)
	for _, flags := range [][]string{{"--try"}, {"--wait", "10s"}} { // time to acquire a free lock
		refuses(t, server, exitNotAcquired, `a machine \x1b[2J that crashed`, with("run", flags, "/lock", "true")...)
	}
	require.NoError(t, client.Delete(testbed.Context(t), "/lock.zklock/_c_x-lock-0000000000"))

	shadow(`{"node":"/lock/_c_x-lock-0000000000","holder":"a machine that crashed","gone_within_ms":300}`)
	code, _, stderr := call(t, server, "run", "/lock", "true")
	assert.Zero(t, code, "it has waited long enough")
	assert.Contains(t, stderr, "waiting until that command exits, at most")
	assertNothingStays(t, server, "/lock")

	shadow(`nonsense`)
	refuses(t, server, cli.ExitUnavailable, "delete it", "run", "/lock", "true")
}

// TestWhoDoesNotWaitCountsForThoseWhoComeLater: a job that is started with --try each minute runs
// again after a crash, although no try waits for the lifetime of the crashed command.
func TestWhoDoesNotWaitCountsForThoseWhoComeLater(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	testbed.Create(t, newClient(t, server), "/lock.zklock/_c_x-lock-0000000000",
		[]byte(`{"node":"/lock/_c_x-lock-0000000000","holder":"a machine that crashed","gone_within_ms":3000}`), framework.ContainerParents())
	try := func() int {
		code, _, _ := call(t, server, "run", "--try", "/lock", "true")
		return code
	}
	began := time.Now()
	require.Equal(t, exitNotAcquired, try())
	testbed.Eventually(t, func() bool { return try() == 0 }, "a try succeeds")
	assert.GreaterOrEqual(t, time.Since(began), 3*time.Second)
	assertNothingStays(t, server, "/lock")
}

// TestShadowsOfAnotherNamespace: a client that shares the lock by another path is not mistaken for
// one that has lost it.
func TestShadowsOfAnotherNamespace(t *testing.T) {
	for _, flags := range [][]string{{"--read"}, {"--permits", "2"}} {
		server := zktest.NewServer(t)
		file := filepath.Join(t.TempDir(), "pid")
		first := spawn(t, server, with("run", flags, "--namespace", "app", "/lock", "sh", "-c", sayPid(file)+works)...)
		clitest.Written(t, file)
		code, _, stderr := call(t, server, with("run", flags, "--wait", "20s", "/app/lock", "true")...)
		assert.Zero(t, code)
		assert.Empty(t, stderr)
		first.endBy(t, syscall.SIGTERM)
	}
}

// TestASignalWhileTheShadowIsMade: no shadow is left. zklock gives a connection up whose server is
// silent, which takes two thirds of the session's timeout.
func TestASignalWhileTheShadowIsMade(t *testing.T) {
	for _, verb := range []string{"run", "elect"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			server := zktest.NewServer(t)
			require.NoError(t, server.Create("/lock.zklock", nil))
			gate := server.BlockReplies(zktest.OnCreate(), zktest.OnPath("/lock.zklock/"))
			// After those two thirds the next connection has 3 s, until the session is given up
			// or zklock ends.
			p := spawn(t, server, verb, "--session", "10s", "--grace", "100ms", "/lock", "echo", "in")
			<-gate.Arrived()
			require.NoError(t, p.Process.Signal(syscall.SIGTERM))
			testbed.Eventually(t, func() bool {
				names, err := server.Children("/lock.zklock")
				return err == nil && len(names) == 0
			}, "the node is removed")
			gate.Open()
			assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), p.end(), p.err.String())
			assert.Empty(t, p.out.String())
			assertNothingStays(t, server, "/lock")
		})
	}
}

// TestASignalJustBeforeTheCommandStarts is not lost, whether or not the context has ended by then.
func TestASignalJustBeforeTheCommandStarts(t *testing.T) {
	server := zktest.NewServer(t)
	require.NoError(t, server.Create("/lock.zklock", nil))
	gate := server.BlockReplies(zktest.OnCreate(), zktest.OnPath("/lock.zklock/"))
	p := program(t, server.Servers(), os.Args[0])
	received := filepath.Join(t.TempDir(), "received")
	p.Env = append(p.Env, lateSignal+"="+received)
	start(t, p)
	<-gate.Arrived()
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	clitest.Written(t, received)
	gate.Open()
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), p.end(), p.err.String())
	assert.Empty(t, p.out.String())
	assertNothingStays(t, server, "/lock")
}

// pending reports whether a signal to a process is pending.
func pending(t *testing.T, pid int, s syscall.Signal) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false // it is only known on Linux
	}
	_, rest, _ := strings.Cut(string(text), "\nShdPnd:\t")
	set, _, _ := strings.Cut(rest, "\n")
	bits, err := strconv.ParseUint(set, 16, 64)
	require.NoError(t, err)
	return bits&(1<<(s-1)) != 0
}

func TestListing(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	ctx := testbed.Context(t)

	refuses(t, server, exitNoLock, "no lock at /nothing (idle", "ls", "/nothing")
	testbed.Create(t, client, "/jobs/nightly", nil, framework.PersistentParents())
	refuses(t, server, exitNoLock, "/jobs is no lock; below it: nightly", "ls", "--json", "/jobs")
	assert.Equal(t, "/jobs/nightly: no holders, no waiters\n", succeeds(t, server, "ls", "/jobs/nightly"))
	assert.Contains(t, succeeds(t, server, "ls", "--json", "/jobs/nightly"), `"kind": "unknown"`)

	m := testbed.Must(mutex.New(client, "/mutex", lock.WithData([]byte("a\nb"))))
	l := testbed.Must(rwlock.New(client, "/rw"))
	s := testbed.Must(semaphore.New(client, "/pool", 1))
	k := testbed.Must(lock.New(client, "/kazoo", kazooName, nil))
	kr := testbed.Must(lock.New(client, "/kazoo-rw", kazooReader, kazooQueue{}))
	kw := testbed.Must(lock.New(client, "/kazoo-rw", kazooName, kazooQueue{}))
	for _, c := range []struct {
		path, kind, title string
		acquire           func(context.Context) (*lock.Hold, error)
		wait              func(context.Context) (*lock.Hold, error)
		waiter            string // the kind of the second node
	}{
		{"/mutex", "lock", "mutex", m.Acquire, m.Acquire, "lock"},
		{"/rw", "read", "read/write lock", l.Read().Acquire, l.Write().Acquire, "write"},
		{"/pool", "lease", "semaphore", s.Acquire, s.Acquire, "lease"},
		{"/kazoo", "lock", "kazoo lock", k.Acquire, k.Acquire, "lock"},
		{"/kazoo-rw", "read", "kazoo lock", kr.Acquire, kw.Acquire, "lock"},
		{"/kazoo-rw", "lock", "kazoo lock", kw.Acquire, kr.Acquire, "read"},
	} {
		hold, err := c.acquire(ctx)
		require.NoError(t, err)
		token, err := hold.FencingToken(ctx)
		require.NoError(t, err)
		waiting, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { // ends with waiting
			defer close(done)
			_, _ = c.wait(waiting)
		}()

		var found struct {
			Path, Kind   string
			Participants []line
		}
		testbed.Eventually(t, func() bool {
			require.NoError(t, json.Unmarshal([]byte(succeeds(t, server, "ls", "--json", c.path)), &found))
			return len(found.Participants) == 2
		}, "one holds and one waits at "+c.path)
		assert.Equal(t, c.path, found.Path)
		assert.Equal(t, c.title, found.Kind)
		first, second := found.Participants[0], found.Participants[1]
		assert.Equal(t, []string{"holds", c.kind, hold.Path(), fmt.Sprintf("%#x", uint64(hold.Session().ID()))},
			[]string{first.State, first.Kind, first.Node, first.Session})
		assert.Equal(t, token, first.Token)
		assert.WithinDuration(t, time.Now(), first.Since, time.Minute)
		assert.Equal(t, []string{"waits", c.waiter}, []string{second.State, second.Kind})

		lines := strings.Split(succeeds(t, server, "ls", c.path), "\n")
		assert.Equal(t, c.path+": "+c.title, lines[0])
		assert.Contains(t, lines[2], hold.Path())
		cancel()
		<-done
		require.NoError(t, hold.Release())
	}
	for n := range 2 { // nodes of kazoo's readers, as kazoo names them
		require.NoError(t, server.Create(fmt.Sprintf("/kazoo-rw/%032x__rlock__%010d", n, n+100), []byte("kazoo")))
	}
	out := succeeds(t, server, "ls", "/kazoo-rw")
	assert.Equal(t, 2, strings.Count(out, "holds  read  kazoo"), "readers hold together: %s", out)
	hold := testbed.Acquire(t, m)
	assert.Contains(t, succeeds(t, server, "ls", "/mutex"), `"a\nb"`, "data cannot change the terminal")
	refuses(t, server, cli.ExitUsage, "is a node of the lock /mutex", "ls", hold.Path())
}

func TestRevoke(t *testing.T) {
	server := zktest.NewServer(t)
	refuses(t, server, exitNoLock, "no lock at /lock (idle", "revoke", "/lock")
	succeeds(t, server, "run", "/lock", "true")
	assert.Equal(t, "/lock: no holders\n", succeeds(t, server, "revoke", "/lock"))

	p, _ := holder(t, server, "trap 'echo asked; exit 5' TERM", works)
	assert.Equal(t, "/lock: holders asked to release: 1\n", succeeds(t, server, "revoke", "/lock"))
	assert.Equal(t, 5, p.end(), "it was asked and ended by itself")
	assert.Equal(t, "asked\n", p.out.String())

	p, _ = holder(t, server, "trap '' TERM", works, "--grace", "100ms")
	succeeds(t, server, "revoke", "--force", "100ms", participant(t, server).Path)
	assert.Equal(t, exitLost, p.end(), "it ignores the signal")
	assertNothingStays(t, server, "/lock")
}

// TestRevokeOfWhatIsNoLock: the message would replace the data of a service, and --force would
// delete its node.
func TestRevokeOfWhatIsNoLock(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	testbed.Create(t, client, "/services/host-1", []byte("address"), framework.PersistentParents(), framework.As(framework.Ephemeral))
	for _, flags := range [][]string{nil, {"--force", "0s"}} {
		refuses(t, server, exitNoLock, "host-1 is not a node of a lock", with("revoke", flags, "/services/host-1")...)
		assert.Equal(t, "address", testbed.ServerData(t, server, "/services/host-1"))
	}

	s := testbed.Must(semaphore.New(client, "/pool", 1))
	hold := testbed.Acquire(t, s)
	succeeds(t, server, "revoke", hold.Path())
	require.NoError(t, hold.Release())
}

// install returns the variable PATH, with zklock.
func install(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.Symlink(os.Args[0], filepath.Join(bin, "zklock")))
	return "PATH=" + bin + ":" + os.Getenv("PATH")
}

// TestReadme runs what the README shows.
func TestReadme(t *testing.T) {
	p := prepare(t, zktest.NewServer(t).Servers())
	transcript.Check(t, "README.md", append(p.Env, tidies+"=1", install(t)))
}

// TestThreeShells has shells increment an unprotected counter, while the leader is killed.
// [TestMixedFaults] has other faults.
func TestThreeShells(t *testing.T) {
	t.Parallel()                                     // it waits most of the time
	shells, rounds := 3, testlevel.Pick(30, 30, 100) // each round is a process of each shell
	e := ensemble.New(t)
	counter := filepath.Join(t.TempDir(), "counter")
	require.NoError(t, os.WriteFile(counter, []byte("0\n"), 0o600))
	counted := func() int {
		text, _ := os.ReadFile(counter)
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return n
	}
	var all []*process
	for range shells {
		all = append(all, start(t, program(t, e.Servers(), "sh", "-c", fmt.Sprintf(`
			i=0
			while [ $i -lt %d ]; do
				"$ZKLOCK" run /counter -- sh -c 'read n < %s; echo $((n + 1)) > %[2]s' || exit
				i=$((i + 1))
			done`, rounds, counter))))
	}
	testbed.Eventually(t, func() bool { return counted() >= shells*rounds/3 }, "a third of the increments")
	leader, err := e.Leader(testbed.Context(t))
	require.NoError(t, err)
	require.NoError(t, e.KillServer(leader))
	for _, p := range all {
		assert.Zero(t, p.end(), p.err.String())
	}
	assert.Equal(t, shells*rounds, counted())
}

// TestKindsOfLocksThatDoNotExcludeEachOther: without the check both would hold at the same time.
func TestKindsOfLocksThatDoNotExcludeEachOther(t *testing.T) {
	flags := map[string][]string{"mutex": nil, "reader": {"--read"}, "writer": {"--write"}, "one of 5": {"--permits", "5"}, "one of 1": {"--permits", "1"}}
	excludes := func(a, b string) bool { // or shares, knowingly
		return a == b || strings.Contains("reader writer", a) && strings.Contains("reader writer", b)
	}
	for held, heldFlags := range flags {
		server := zktest.NewServer(t)
		file := filepath.Join(t.TempDir(), "pid")
		p := spawn(t, server, with("run", heldFlags, "/lock", "sh", "-c", sayPid(file)+"exec sleep 1000")...)
		clitest.Written(t, file)
		for asked, askedFlags := range flags {
			if excludes(held, asked) {
				continue
			}
			code, out, stderr := call(t, server, with("run", askedFlags, "/lock", "echo", "in")...)
			assert.Equal(t, exitConflict, code, "%s beside %s", asked, held)
			assert.Empty(t, out, "%s beside %s", asked, held)
			assert.Regexp(t, `^zklock: .*/lock.*\n$`, stderr, "%s beside %s", asked, held)
		}
		p.endBy(t, syscall.SIGTERM)
		for asked, askedFlags := range flags {
			code, _, stderr := call(t, server, with("run", askedFlags, "/lock", "true")...)
			assert.Zero(t, code, "%s after %s", asked, held)
			if strings.HasPrefix(held, "one of") && !strings.HasPrefix(asked, "one of") {
				assert.Contains(t, stderr, "warning: /lock was used as a semaphore", "%s after %s", asked, held)
			}
		}
	}
}

// TestKindsAreCheckedAgainByWhoHolds: the other client queued while this one waited.
func TestKindsAreCheckedAgainByWhoHolds(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	m := testbed.Must(mutex.New(client, "/lock"))
	first := testbed.Acquire(t, m)
	p := spawn(t, server, "run", "/lock", "echo", "in")
	queued(t, m, 2)
	s := testbed.Must(semaphore.New(client, "/lock", 1))
	second := testbed.Acquire(t, s)
	require.NoError(t, first.Release())
	assert.Equal(t, exitConflict, p.end())
	assert.Empty(t, p.out.String())
	assert.Contains(t, p.err.String(), "a semaphore is in use at /lock")
	require.NoError(t, second.Release())
}
