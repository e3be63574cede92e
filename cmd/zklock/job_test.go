//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/cmd/internal/clitest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/zktest"
)

func TestTerminal(t *testing.T) {
	server := zktest.NewServer(t)
	sh := atTerminal(t, program(t, server.Servers(), "sh", "-c", `
		$ZKLOCK run /lock sh -c 'read line; echo "command: $line"'
		read line; echo "script: $line"
		trap : INT
		$ZKLOCK run /lock sh -c 'echo ready; exec sleep 60'; echo "exit code $?"`))
	sh.enter("one\n")
	sh.read("command: one")
	sh.enter("two\n")
	sh.read("script: two")
	sh.read("ready")
	sh.enter("\x03")
	sh.read("exit code 130")
	assert.Zero(t, sh.end())
}

// TestCtrlCEndsTheScript: the keys are for the process group of the command alone, and the script
// around zklock does not continue after them, as it would not without zklock. Bash continues after
// Ctrl-C unless zklock has died of the signal, and after the other key in any case. The same holds
// while another client holds the lock.
func TestCtrlCEndsTheScript(t *testing.T) {
	for _, c := range []struct {
		sh, key string
		want    syscall.Signal
		waits   bool
	}{
		{"sh", "\x03", syscall.SIGINT, false}, {"sh", "\x1c", syscall.SIGQUIT, false}, {"bash", "\x03", syscall.SIGINT, false},
		{"sh", "\x03", syscall.SIGINT, true}, {"bash", "\x03", syscall.SIGINT, true},
	} {
		server := zktest.NewServer(t)
		m := newMutex(t, server, "/lock")
		held := 0
		if c.waits {
			testbed.Acquire(t, m)
			held = 1
		}
		sh := atTerminal(t, program(t, server.Servers(), c.sh, "-c", `ulimit -c 0
			for i in 1 2; do $ZKLOCK run /lock sh -c 'echo ready; exec sleep 60'; done; echo "the script goes on"`))
		if c.waits {
			queued(t, m, 2)
		} else {
			sh.read("ready")
		}
		sh.enter(c.key)
		ended := testbed.Go(sh.end) // with the script
		testbed.Receive(t, ended, "the script ends")
		assert.Equal(t, c.want, sh.ProcessState.Sys().(syscall.WaitStatus).Signal(), c)
		queued(t, m, held)
		if !c.waits {
			assertNothingStays(t, server, "/lock")
		}
	}
}

// TestACodeOf130IsNoCtrlC: a command may exit with 130 by itself, and --exit-code may be 130.
func TestACodeOf130IsNoCtrlC(t *testing.T) {
	server := zktest.NewServer(t)
	m := newMutex(t, server, "/held")
	hold := testbed.Acquire(t, m)
	t.Cleanup(func() { _ = hold.Release() })
	for _, args := range [][]string{{"run", "/lock", "sh", "-c", "exit 130"}, {"run", "--wait", "1ms", "--exit-code", "130", "/held", "true"}} {
		p := atTerminal(t, prepare(t, server.Servers(), args...))
		p.end()
		assert.Equal(t, cli.ExitSignal+int(syscall.SIGINT), p.ProcessState.ExitCode(), "%q: %v", args, p.ProcessState)
	}
}

// TestTheTerminalComesBackFromWhatCannotBeRun: a script can read the terminal after a command that
// cannot be run.
func TestTheTerminalComesBackFromWhatCannotBeRun(t *testing.T) {
	server := zktest.NewServer(t)
	file := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(file, []byte("no program\n"), 0o700))
	p := program(t, server.Servers(), "sh", "-c", `$ZKLOCK run /lock "$FILE"; echo "exit code $?"; read line; echo "script: $line"`)
	p.Env = append(p.Env, "FILE="+file)
	sh := atTerminal(t, p)
	sh.read("exit code 126")
	sh.enter("a line\n")
	sh.read("script: a line")
	assert.Zero(t, sh.end())
}

// readingUntil returns a function that reads until a text arrives. It continues behind the text of
// its previous call.
func readingUntil(t *testing.T, f *os.File) func(text string) {
	var all []byte
	return func(text string) {
		t.Helper()
		require.NoError(t, f.SetReadDeadline(time.Now().Add(10*time.Minute)))
		buffer := make([]byte, 1024)
		for {
			if _, rest, found := bytes.Cut(all, []byte(text)); found {
				all = rest
				return
			}
			n, err := f.Read(buffer)
			require.NoError(t, err, "before %q: %s", text, all)
			all = append(all, buffer[:n]...)
		}
	}
}

// shell is a program at its own terminal.
type shell struct {
	*testing.T
	*process
	terminal *os.File
	read     func(text string) // until a text has come
}

// atTerminal starts p at a terminal.
func atTerminal(t *testing.T, p *process) *shell {
	t.Helper()
	terminal, slave := clitest.Terminal(t)
	p.Stdin, p.Stdout, p.Stderr = slave, slave, slave
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	start(t, p)
	require.NoError(t, slave.Close())
	return &shell{t, p, terminal, readingUntil(t, terminal)}
}

// interactive starts a shell with job control.
func interactive(t *testing.T, server *zktest.Server) *shell {
	t.Helper()
	p := program(t, server.Servers(), "sh", "-i")
	p.Env = append(p.Env, "PS1=> ", "ENV=")
	s := atTerminal(t, p)
	s.read("> ")
	return s
}

func (s *shell) enter(text string) {
	s.Helper()
	require.NoError(s, testbed.Err(s.terminal.WriteString(text)))
}

// inFront waits until the shell, or one of its jobs, is in the foreground.
func (s *shell) inFront(itself bool) {
	s.Helper()
	testbed.Eventually(s.T, func() bool {
		group := 0
		raw, err := s.terminal.SyscallConn()
		require.NoError(s, err)
		require.NoError(s, raw.Control(func(fd uintptr) { group, _ = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }))
		return group != 0 && itself == (group == s.Process.Pid)
	}, "the terminal changes hands")
}

// interrupt brings the job to the front, ends it with Ctrl-C, and leaves the shell.
func (s *shell) interrupt() {
	s.Helper()
	s.enter("fg\n")
	s.inFront(false)
	s.enter("\x03")
	s.inFront(true)
	s.enter("echo exit co''de $?\n")
	s.read("exit code 130")
	s.enter("exit\n")
	assert.Zero(s, s.end())
}

// holderStops waits until the zklock that holds is stopped.
func holderStops(t *testing.T, server *zktest.Server) {
	t.Helper()
	_, pid, _ := strings.Cut(string(participant(t, server).Data), ":")
	pid, _, _ = strings.Cut(pid, " ")
	testbed.Eventually(t, func() bool { return stateOf(pid) == "T" }, "zklock is stopped")
}

// counter is a command that counts in a file while it runs. It starts no process: a process that is
// stopped between vfork and exec prevents its parent from stopping, in any shell.
type counter struct {
	file string
	seen int64 // the size of the file when it was last looked at
}

func newCounter(t *testing.T) *counter { return &counter{file: filepath.Join(t.TempDir(), "count")} }

func (c *counter) script() string {
	return "env -u " + beZklock + " " + beCounter + "=" + c.file + " $ZKLOCK"
}

func (c *counter) size() int64 {
	info, err := os.Stat(c.file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// moves reports whether the command has counted since the last call of moves or stopped.
func (c *counter) moves() bool {
	before := c.seen
	c.seen = c.size()
	return c.seen != before
}

// stopped reports whether the command is stopped.
func (c *counter) stopped() bool {
	stopped := stateOf(c.pid()) == "T"
	c.seen = c.size()
	return stopped
}

func (c *counter) pid() string {
	pid, _ := os.ReadFile(c.file + ".pid")
	return string(pid)
}

// stateOf returns the state of a process on Linux: "T" if it is stopped, or empty if it does not
// exist.
func stateOf(pid string) string {
	text, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, _ := strings.Cut(string(text), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// beCounter makes the test binary run as the command of a counter.
const beCounter = "ZKLOCK_TEST_COUNT"

// stubborn makes the command of a counter ignore SIGTERM.
const stubborn = "ZKLOCK_TEST_COUNT_ON"

func count(file string) {
	if os.Getenv(stubborn) != "" {
		signal.Ignore(syscall.SIGTERM)
	}
	err := os.WriteFile(file+".pid", []byte(strconv.Itoa(os.Getpid())), 0o600)
	fmt.Println("begun") // it may be stopped from here on
	f, openErr := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	// the work of the command; tests wait for its state and its count
	for err = errors.Join(err, openErr); err == nil; time.Sleep(10 * time.Millisecond) {
		_, err = f.WriteString(".")
	}
	os.Exit(1)
}

// leaveGroup makes the test binary run as a command that moves to the process group of its zklock,
// reports that in this file, and runs on.
const leaveGroup = "ZKLOCK_TEST_LEAVE_GROUP"

func leave(file string) {
	group, err := syscall.Getpgid(os.Getppid())
	err = errors.Join(err, syscall.Setpgid(0, group), os.WriteFile(file, fmt.Appendln(nil, os.Getpid()), 0o600))
	for err == nil {
		_ = syscall.Pause() // returns after each signal that does not end the process
	}
	os.Exit(1)
}

func init() {
	if file := os.Getenv(leaveGroup); file != "" && os.Getenv(beZklock) == "" {
		leave(file)
	}
	if file := os.Getenv(beCounter); file != "" && os.Getenv(beZklock) == "" {
		count(file)
	}
}

// TestStoppedAtTheTerminal is Ctrl-Z, fg, Ctrl-Z, bg, fg and Ctrl-C in an interactive shell.
func TestStoppedAtTheTerminal(t *testing.T) {
	server := zktest.NewServer(t)
	sh := interactive(t, server)
	c := newCounter(t)
	sh.enter("$ZKLOCK run /lock " + c.script() + "\n")
	sh.read("begun")
	sh.enter("\x1a")
	sh.read("stopped; if it is not continued within")
	sh.enter("echo the prompt is ba''ck\n")
	sh.read("the prompt is back")
	testbed.Eventually(t, c.stopped, "the command is stopped")

	sh.enter("fg\n")
	testbed.Eventually(t, c.moves, "the command goes on")
	sh.enter("\x1a")
	sh.read("stopped; if it is not continued within")
	sh.inFront(true)
	testbed.Eventually(t, c.stopped, "the command is stopped again")
	sh.enter("bg; echo in the back''ground\n")
	sh.read("in the background")
	testbed.Eventually(t, c.moves, "the command goes on in the background")
	sh.interrupt()
	assertNothingStays(t, server, "/lock")
}

// TestStoppedByWhoKnowsTheJob stops a job in the background.
func TestStoppedByWhoKnowsTheJob(t *testing.T) {
	server := zktest.NewServer(t)
	sh := interactive(t, server)
	c := newCounter(t)
	sh.enter("$ZKLOCK run /lock " + c.script() + " &\n")
	testbed.Eventually(t, c.moves, "the command runs")
	sh.enter("kill -TSTP %1\n")
	holderStops(t, server)
	assert.True(t, c.stopped())
	sh.enter("kill -CONT %1\n")
	testbed.Eventually(t, c.moves, "the command goes on")
	sh.enter("kill %1\n")
	queued(t, newMutex(t, server, "/lock"), 0)
	assert.Empty(t, stateOf(c.pid()), "the command has ended before the lock is free")
}

// TestLostWhileStopped: a command that was stopped until its lock was lost does not continue, even
// if it ignores SIGTERM.
func TestLostWhileStopped(t *testing.T) {
	t.Parallel() // it waits most of the time
	for name, prefix := range map[string]string{"politely": "", "by force": "env " + stubborn + "=1 "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.NewServer(t)
			sh := interactive(t, server)
			c := newCounter(t)
			sh.enter("$ZKLOCK run --session 4s --grace 1s /lock " + prefix + c.script() + "\n")
			sh.read("begun")
			m := newMutex(t, server, "/lock")
			session := queued(t, m, 1)[0].SessionID
			sh.enter("\x1a")
			sh.read("stopped; if it is not continued within")
			holderStops(t, server)
			require.NoError(t, server.ExpireSession(session))
			hold, err := m.TryAcquire(testbed.Context(t))
			require.NoError(t, err, "it is free")
			server.RefuseConnections(true) // zklock receives no event
			server.CutConnections()
			counted := c.size()
			sh.inFront(true)
			sh.enter("fg\n")
			sh.read("lost /lock")
			sh.inFront(true)
			sh.enter("echo exit co''de $?\n")
			sh.read("exit code 70")
			assert.Equal(t, counted, c.size(), "the command has not run any more")
			server.RefuseConnections(false)
			_ = hold.Release() // it may be lost
			sh.enter("exit\n")
			assert.Zero(t, sh.end())
		})
	}
}

// TestACommandThatSomebodyElseContinuedHasItsGrace: zklock does not treat it as stopped. Nothing
// shows when zklock has noticed the stop and its end, so it has more time for each at every try,
// until the command has its grace.
func TestACommandThatSomebodyElseContinuedHasItsGrace(t *testing.T) {
	server := zktest.NewServer(t)
	for later := 10 * time.Millisecond; ; later *= 4 {
		file := filepath.Join(t.TempDir(), "pid")
		p, session := holder(t, server, "trap 'echo cleaning up; exit 0' TERM; "+sayPid(file)+":", "while :; do :; done")
		pid := clitest.PID(t, file)
		stopped := func() bool { return stateOf(strconv.Itoa(pid)) == "T" }
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		testbed.Eventually(t, stopped, "the command is stopped")
		time.Sleep(later) // zklock prints nothing when it notices the stop; too short a pause fails no test
		require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
		testbed.Eventually(t, func() bool { return !stopped() }, "the command runs again")
		time.Sleep(later) // the same for the end of the stop
		require.NoError(t, server.ExpireSession(session))
		assert.Equal(t, exitLost, p.end())
		if later > 10*time.Second || p.out.String() != "" {
			assert.Equal(t, "cleaning up\n", p.out.String())
			return
		}
	}
}

// TestTheCommandReadsInTheBackground: a command in the background reads the terminal.
func TestTheCommandReadsInTheBackground(t *testing.T) {
	server := zktest.NewServer(t)
	sh := interactive(t, server)
	sh.enter("$ZKLOCK run /lock sh -c 'read line; echo \"got: $line\"' &\n")
	sh.read("stopped; if it is not continued within")
	holderStops(t, server)
	sh.enter("fg\n")
	sh.inFront(false)
	sh.enter("a line\n")
	sh.read("got: a line")
	sh.inFront(true)
	sh.enter("$ZKLOCK run /lock sh -c 'echo rea''dy; read line; echo \"and: $line\"' | cat\n")
	sh.read("ready") // its output is no terminal
	sh.enter("another\n")
	sh.read("and: another")
	sh.enter("exit\n")
	assert.Zero(t, sh.end())
}

// TestTheTerminalIsTakenFromTheCommand: a shell that starts the rest of a pipeline late gives the
// terminal to the whole job, which is zklock's group, after zklock has given it to the command.
func TestTheTerminalIsTakenFromTheCommand(t *testing.T) {
	server := zktest.NewServer(t)
	sh := interactive(t, server)
	sh.enter("$ZKLOCK run /lock sh -c 'read a; " + giveTerminalTo + "=$PPID $ZKLOCK; echo \"first: $a\"; read b; echo \"second: $b\"'\n")
	sh.inFront(false)
	sh.enter("one\n")
	sh.read("first: one")
	sh.enter("two\n")
	sh.read("second: two")
	sh.inFront(true)
	sh.enter("exit\n")
	assert.Zero(t, sh.end())
}

// TestNobodyIsThereToContinue: without job control Ctrl-Z does not block the terminal.
func TestNobodyIsThereToContinue(t *testing.T) {
	server := zktest.NewServer(t)
	script := `$ZKLOCK run /lock sh -c 'echo ready; read line; echo "got: $line"'`
	sh := atTerminal(t, program(t, server.Servers(), "sh", "-c", script))
	sh.read("ready")
	sh.enter("\x1a")
	sh.read("stopped; if")
	sh.enter("a line\n")
	sh.read("got: a line")
	assert.Zero(t, sh.end())
}

// TestWhatTheCommandLeavesBehindIsEnded: a process that ignores Ctrl-C, as a background process of
// a shell does, does not run without the lock.
func TestWhatTheCommandLeavesBehindIsEnded(t *testing.T) {
	for name, script := range map[string]string{
		"it ends":            `(sleep 1000; :) & echo $! > "$FILE"`,
		"Ctrl-C":             `(: > "$FILE.on"; sleep 1000; :) & echo $! > "$FILE"; while [ ! -e "$FILE.on" ]; do sleep 0.01; done; trap "exit 130" INT; kill -INT $PPID; while :; do sleep 0.01; done`,
		"it ignores SIGTERM": `(trap "" TERM; while :; do sleep 0.01; done) & echo $! > "$FILE"`,
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			file := filepath.Join(t.TempDir(), "pid")
			p := program(t, server.Servers(), os.Args[0], "run", "--grace", "100ms", "/lock", "sh", "-c", script)
			p.Env = append(p.Env, "FILE="+file)
			start(t, p)
			pid := clitest.PID(t, file)
			code := p.end()
			assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "it is dead when zklock has ended")
			assert.Contains(t, p.err.String(), "left processes behind")
			assert.Equal(t, name == "Ctrl-C", code == cli.ExitSignal+int(syscall.SIGINT), "exit code %d", code)
			assertNothingStays(t, server, "/lock")
		})
	}
}

// TestWhatIsLeftBehindHasItsGraceWithOnLossKill: while the lock is held, and no longer.
func TestWhatIsLeftBehindHasItsGraceWithOnLossKill(t *testing.T) {
	const leave = `(trap "%s" TERM; : > "$FILE"; while :; do sleep 0.01; done) & while [ ! -e "$FILE" ]; do sleep 0.01; done`
	prepared := func(server *zktest.Server, onTerm string) *process {
		p := prepare(t, server.Servers(), "run", "--on-loss", "kill", "--grace", "15s", "/lock", "sh", "-c", fmt.Sprintf(leave, onTerm))
		p.Env = append(p.Env, "FILE="+filepath.Join(t.TempDir(), "file"))
		return p
	}
	server := zktest.NewServer(t)
	p := start(t, prepared(server, "sleep 0.1; echo tidied; exit"))
	assert.Zero(t, p.end(), p.err.String())
	assert.Equal(t, "tidied\n", p.out.String())
	assertNothingStays(t, server, "/lock")

	p = start(t, prepared(server, ""))
	session := participant(t, server).SessionID
	testbed.Eventually(t, func() bool { return strings.Contains(p.err.String(), "left processes behind") }, "a word")
	lost := time.Now()
	require.NoError(t, server.ExpireSession(session))
	assert.Equal(t, exitLost, p.end())
	assert.Less(t, time.Since(lost), 10*time.Second, "it has not had its grace")
}

// TestTheCommandLeavesItsProcessGroup: the command remains a child of zklock, so it receives
// signals and is ended when the lock is lost.
func TestTheCommandLeavesItsProcessGroup(t *testing.T) {
	for name, want := range map[string]int{"lost": exitLost, "signal": cli.ExitSignal + int(syscall.SIGTERM)} {
		server := zktest.NewServer(t)
		file := filepath.Join(t.TempDir(), "pid")
		p := spawn(t, server, "run", "--grace", "100ms", "/lock", "env", "-u", beZklock, leaveGroup+"="+file, os.Args[0])
		pid := clitest.PID(t, file)
		if name == "signal" {
			require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		} else {
			require.NoError(t, server.ExpireSession(participant(t, server).SessionID))
		}
		testbed.Eventually(t, func() bool { return clitest.Dead(pid) }, "the command is ended: "+name)
		assert.Equal(t, want, p.end())
	}
}

// TestWhatEndsByItselfIsNotDisturbed: the last reader of a pipe may be a moment later than the
// command.
func TestWhatEndsByItselfIsNotDisturbed(t *testing.T) {
	t.Setenv(tidies, "1")
	server := zktest.NewServer(t)
	// its closing shows the remaining process that the command has exited
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	code, out, stderr := call(t, server, "run", "/lock", "sh", "-c", "sh -c 'read x; echo done' < "+fifo+" & exec 3> "+fifo)
	assert.Zero(t, code)
	assert.Equal(t, "done\n", out)
	assert.Empty(t, stderr)
}

// TestWhatIsKilledWithTheCommandIsNotLeftBehind: killed processes that are still exiting are not
// reported.
func TestWhatIsKilledWithTheCommandIsNotLeftBehind(t *testing.T) {
	t.Setenv(tidies, "1")
	server := zktest.NewServer(t)
	p, session := holder(t, server, "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done", works, "--on-loss", "kill")
	require.NoError(t, server.ExpireSession(session))
	assert.Equal(t, exitLost, p.end())
	assert.NotContains(t, p.err.String(), "left processes behind")
}

// TestExitAtOnceAfterALoss: zklock exits as soon as the command has exited, even if no server
// answers.
func TestExitAtOnceAfterALoss(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	p, _ := holder(t, server, "trap 'date +%s.%N; exit 0' TERM", works, "--session", "4s", "--grace", "2s")
	server.RefuseConnections(true)
	server.CutConnections()
	require.Equal(t, exitLost, p.end(), p.err.String())
	ended := time.Now()
	seconds := testbed.Must(strconv.ParseFloat(strings.TrimSpace(p.out.String()), 64))
	died := time.UnixMilli(int64(seconds * 1000))
	assert.Less(t, ended.Sub(died), removeTimeout, "it does not wait for a connection")
}

// TestACommandThatHasEndedGetsNoGrace: zklock may notice a loss and the exit of the command at the
// same instant.
func TestACommandThatHasEndedGetsNoGrace(t *testing.T) {
	p := program(t, nil, os.Args[0])
	p.Env = append(p.Env, endDead+"=1")
	began := time.Now()
	assert.Equal(t, 3, start(t, p).end(), p.err.String())
	assert.Less(t, time.Since(began), time.Minute, "the grace")
}

// TestEachCommandOfElectInheritsTheSameSignals: the signal handling during one command does not
// affect the next one.
func TestEachCommandOfElectInheritsTheSameSignals(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	file := filepath.Join(t.TempDir(), "signals")
	sh := interactive(t, server)
	sh.enter("FILE=" + file + "; export FILE; $ZKLOCK elect /lock sh -c 'grep SigIgn /proc/self/status >> \"$FILE\"; exec sleep 1000'\n")
	ignored := func(n int) []string {
		var lines []string
		testbed.Eventually(t, func() bool {
			text, _ := os.ReadFile(file)
			lines = strings.Split(string(text), "\n")
			return len(lines) > n
		}, "the command of term "+strconv.Itoa(n)+" runs")
		return lines[:n]
	}
	ignored(1)
	sh.inFront(false)
	succeeds(t, server, "revoke", "/lock")
	lines := ignored(2)
	assert.Equal(t, lines[0], lines[1])
	// And it is a job like the first one.
	sh.enter("\x1a")
	sh.read("stopped; if it is not continued within")
	sh.inFront(true)
	sh.interrupt()
	assertNothingStays(t, server, "/lock")
}

// TestElectIsStoppedWhileItWaits: between two commands Ctrl-Z stops zklock like any program.
func TestElectIsStoppedWhileItWaits(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	e := newElection(t, server)
	sh := interactive(t, server)
	sh.enter("$ZKLOCK elect /election sh -c 'echo be''gun; exec sleep 1000'\n")
	sh.read("begun")
	next := testbed.Go(func() *leader.Term { // ends when zklock gives the leadership up
		term, err := e.Campaign(testbed.Context(t))
		assert.NoError(t, err)
		return term
	})
	candidates(t, e, 2)
	succeeds(t, server, "revoke", "/election")
	term := <-next
	candidates(t, e, 2)
	sh.enter("\x1a")
	sh.inFront(true)
	sh.enter("fg\n")
	sh.inFront(false)
	require.NoError(t, term.Release())
	sh.read("begun")
	sh.inFront(false)
	sh.enter("\x03")
	sh.inFront(true)
	sh.enter("exit 0\n")
	assert.Zero(t, sh.end())
}

// TestNobodyReadsWhatZklockSays: with a closed standard error the command exits in order, the lock
// is released, and the command does not inherit an ignored SIGPIPE.
func TestNobodyReadsWhatZklockSays(t *testing.T) {
	t.Parallel() // it waits most of the time
	for verb, flags := range map[string][]string{"run": nil, "elect": {"--selector"}} {
		t.Run(verb, func(t *testing.T) {
			server := zktest.NewServer(t)
			file := filepath.Join(t.TempDir(), "pid")
			script := "exec 2>/dev/null; trap 'echo cleaning up; kill -PIPE $$' TERM; " + sayPid(file) + works
			p := prepare(t, server.Servers(), with(verb, flags, "/lock", "sh", "-c", script)...)
			reader, writer, err := os.Pipe()
			require.NoError(t, err)
			p.Stderr = writer
			start(t, p)
			require.NoError(t, writer.Close())
			require.NoError(t, reader.Close())
			clitest.Written(t, file)
			if verb == "run" {
				succeeds(t, server, "revoke", "/lock")
			} else {
				session := participant(t, server).SessionID
				require.NoError(t, os.Remove(file)) // before the next command writes it
				require.NoError(t, server.ExpireSession(session))
				clitest.Written(t, file) // it has campaigned again
				require.NoError(t, p.Process.Signal(syscall.SIGTERM))
			}
			assert.Equal(t, cli.ExitSignal+int(syscall.SIGPIPE), p.end())
			assert.Contains(t, p.out.String(), "cleaning up\n")
			assertNothingStays(t, server, "/lock")
		})
	}
}

// TestNobodyTakesWhatZklockSays: neither a full pipe nor a terminal that was stopped with Ctrl-S
// prevents zklock from ending a command.
func TestNobodyTakesWhatZklockSays(t *testing.T) {
	server := zktest.NewServer(t)
	file := filepath.Join(t.TempDir(), "pid")
	p := prepare(t, server.Servers(), "run", "--grace", "100ms", "/lock", "sh", "-c", "exec 2>/dev/null; trap '' TERM; "+sayPid(file)+works)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	require.NoError(t, writer.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = writer.Write(make([]byte, 1<<20)) // until it is full
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	p.Stderr = writer // from now on writes block
	start(t, p)
	require.NoError(t, writer.Close())
	pid := clitest.PID(t, file)
	session := participant(t, server).SessionID
	succeeds(t, server, "revoke", "/lock")
	require.NoError(t, server.ExpireSession(session))
	testbed.Eventually(t, func() bool { return clitest.Dead(pid) }, "the command is ended")
	assert.Equal(t, exitLost, p.end())
}

// TestCommandDiesWithZklock is for Linux, like this file: no other system signals a child when its
// parent has died.
func TestCommandDiesWithZklock(t *testing.T) {
	server := zktest.NewServer(t)
	file := filepath.Join(t.TempDir(), "pid")
	p := spawn(t, server, "run", "/lock", "sh", "-c", sayPid(file)+works)
	pid := clitest.PID(t, file)
	require.NoError(t, p.Process.Kill())
	testbed.Eventually(t, func() bool { return clitest.Dead(pid) }, "the command is dead")
}
