//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/cmd/internal/clitest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/zktest"
)

// served is a shell command that writes its process id and its token, and runs until it receives
// SIGTERM. It installs the handler before it writes.
const served = `trap 'echo ended; exit 9' TERM; echo "$$ $ZKLOCK_TOKEN" >> "$FILE"; while :; do sleep 0.01; done`

// candidate is a zklock elect, with the file that its command writes a line into at the beginning
// of each term.
type candidate struct {
	*process
	dir, file string
}

func elects(t *testing.T, server *zktest.Server, script string, flags ...string) *candidate {
	t.Helper()
	dir := t.TempDir()
	p := prepare(t, server.Servers(), with("elect", flags, "/election", "--", "sh", "-c", script)...)
	c := &candidate{p, dir, filepath.Join(dir, "terms")}
	c.Env = append(c.Env, "FILE="+c.file, "DIR="+dir)
	start(t, c.process)
	return c
}

// told waits until the command has written a line to a file of $DIR, and deletes the file.
func (c *candidate) told(t *testing.T, name string) {
	t.Helper()
	clitest.Written(t, filepath.Join(c.dir, name))
	require.NoError(t, os.Remove(filepath.Join(c.dir, name)))
}

// tell creates a file in $DIR.
func (c *candidate) tell(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), nil, 0o600))
}

// term waits until the command of the nth term runs, and returns its process id and its token.
func (c *candidate) term(t *testing.T, n int) (pid int, token int64) {
	t.Helper()
	var lines []string
	testbed.Eventually(t, func() bool {
		text, _ := os.ReadFile(c.file)
		lines = strings.Split(string(text), "\n")
		return len(lines) > n
	}, "the command of term "+strconv.Itoa(n)+" runs")
	fields := strings.Fields(lines[n-1])
	require.Len(t, fields, 2)
	pid = testbed.Must(strconv.Atoi(fields[0]))
	token = testbed.Must(strconv.ParseInt(fields[1], 10, 64))
	return pid, token
}

func (c *candidate) terms() int {
	text, _ := os.ReadFile(c.file)
	return strings.Count(string(text), "\n")
}

func newElection(t *testing.T, server *zktest.Server, opts ...leader.Option) *leader.Election {
	t.Helper()
	return testbed.Must(leader.New(newClient(t, server), "/election", opts...))
}

// candidates waits until the election has n participants.
func candidates(t *testing.T, e *leader.Election, n int) []leader.Participant {
	t.Helper()
	var all []leader.Participant
	testbed.Eventually(t, func() bool {
		var err error
		all, err = e.Participants(testbed.Context(t))
		return err == nil && len(all) == n
	}, strconv.Itoa(n)+" in the election")
	return all
}

// TestElectIsACandidateAmongOthers: it takes part in the elections of package leader, and ls shows
// them.
func TestElectIsACandidateAmongOthers(t *testing.T) {
	server := zktest.NewServer(t)
	e := newElection(t, server, leader.WithID("a library"))
	first := elects(t, server, served, "--id", "host-7")
	_, token := first.term(t, 1)
	all := candidates(t, e, 1)
	assert.Equal(t, []any{"host-7", true, token}, []any{all[0].ID, all[0].Leads, all[0].Token})

	next := testbed.Go(func() *leader.Term { // ends when the first one has
		term, err := e.Campaign(testbed.Context(t))
		assert.NoError(t, err)
		return term
	})
	candidates(t, e, 2)
	second := elects(t, server, served)
	candidates(t, e, 3)
	var found struct {
		Kind         string
		Participants []line
	}
	require.NoError(t, json.Unmarshal([]byte(succeeds(t, server, "ls", "--json", "/election")), &found))
	assert.Equal(t, "election", found.Kind)
	var seen []string
	for _, l := range found.Participants {
		seen = append(seen, l.State+" "+l.Kind+" "+l.Data)
	}
	require.Len(t, seen, 3)
	assert.Equal(t, []string{"leads term host-7", "waits term a library"}, seen[:2])
	assert.Regexp(t, `^waits term \S+:\d+ sh$`, seen[2])
	assert.Regexp(t, `^/election: election\nSTATE .*\nleads +term +host-7 `, succeeds(t, server, "ls", "/election"))

	assert.Equal(t, 9, first.endBy(t, syscall.SIGTERM))
	term := <-next
	assert.Zero(t, second.terms())
	require.NoError(t, term.Release())
	_, later := second.term(t, 1)
	assert.Greater(t, later, token)
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGINT), second.endBy(t, syscall.SIGINT))
	assertNothingStays(t, server, "/election")
}

// TestElectCampaignsAgain: after a lost term the command is ended, the next candidate leads, and
// then this one leads again.
func TestElectCampaignsAgain(t *testing.T) {
	t.Parallel() // it waits most of the time
	for name, lose := range map[string]func(t *testing.T, server *zktest.Server, p leader.Participant){
		"session": func(t *testing.T, server *zktest.Server, p leader.Participant) {
			require.NoError(t, server.ExpireSession(p.SessionID))
		},
		"node": func(t *testing.T, server *zktest.Server, p leader.Participant) {
			require.NoError(t, newClient(t, server).Delete(testbed.Context(t), p.Path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.NewServer(t)
			e := newElection(t, server)
			first := elects(t, server, served)
			firstPid, _ := first.term(t, 1)
			second := elects(t, server, served)
			lose(t, server, candidates(t, e, 2)[0])
			secondPid, _ := second.term(t, 1)
			assert.True(t, clitest.Dead(firstPid), "the first command has ended when the second begins")
			// Both have campaigned: the first one waits.
			candidates(t, e, 2)
			assert.Equal(t, 1, first.terms())
			lose(t, server, candidates(t, e, 2)[0])
			first.term(t, 2)
			assert.True(t, clitest.Dead(secondPid))
			candidates(t, e, 2)
			for _, c := range []*candidate{first, second} {
				c.endBy(t, syscall.SIGTERM)
				assert.Contains(t, c.out.String(), "ended\n")
				assert.Regexp(t, `zklock: lost /election/_c_\S+-latch-\d+: .*; campaigning again\n`, c.err.String())
			}
			assertNothingStays(t, server, "/election")
		})
	}
}

// TestElectGivesUpOnlyWhenTheCommandHasEnded: the node exists until the command has exited, also
// after a signal.
func TestElectGivesUpOnlyWhenTheCommandHasEnded(t *testing.T) {
	server := zktest.NewServer(t)
	e := newElection(t, server)
	first := elects(t, server, `trap 'echo > "$DIR/signalled"; while [ ! -e "$DIR/go" ]; do sleep 0.01; done; exit 0' TERM
		echo "$$ $ZKLOCK_TOKEN" >> "$FILE"; while :; do sleep 0.01; done`)
	first.term(t, 1)
	second := elects(t, server, served)
	before := candidates(t, e, 2)
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	first.told(t, "signalled")
	assert.Equal(t, before, candidates(t, e, 2))
	assert.Zero(t, second.terms())
	first.tell(t, "go")
	assert.Zero(t, first.end(), first.err.String())
	second.term(t, 1)
	assert.Equal(t, before[1].Path, candidates(t, e, 1)[0].Path)
	second.endBy(t, syscall.SIGTERM)
}

// TestASignalWhileTheCommandIsEnded: after a signal zklock does not campaign again.
func TestASignalWhileTheCommandIsEnded(t *testing.T) {
	server := zktest.NewServer(t)
	e := newElection(t, server)
	c := elects(t, server, `trap 'echo > "$DIR/signalled"' TERM
		echo "$$ $ZKLOCK_TOKEN" >> "$FILE"; while [ ! -e "$DIR/go" ]; do sleep 0.01; done`, "--grace", "15s")
	c.term(t, 1)
	require.NoError(t, server.ExpireSession(candidates(t, e, 1)[0].SessionID))
	c.told(t, "signalled")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	c.told(t, "signalled") // it is passed on
	c.tell(t, "go")
	assert.Equal(t, exitLost, c.end())
	assert.NotContains(t, c.err.String(), "campaigning again")
	assertNothingStays(t, server, "/election")
}

// TestElectCampaignsAgainAfterASignalThatEndsNothing: a command that reloads its configuration
// continues, and so does elect.
func TestElectCampaignsAgainAfterASignalThatEndsNothing(t *testing.T) {
	server := zktest.NewServer(t)
	e := newElection(t, server)
	c := elects(t, server, `trap 'echo > "$DIR/received"' HUP USR1 USR2; `+served)
	for i, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		c.term(t, i+1)
		require.NoError(t, c.Process.Signal(s))
		c.told(t, "received")
		require.NoError(t, server.ExpireSession(candidates(t, e, 1)[0].SessionID))
	}
	c.term(t, 4)
	require.NoError(t, c.Process.Signal(syscall.SIGHUP))
	c.told(t, "received")
	assert.Equal(t, 9, c.endBy(t, syscall.SIGTERM))
	assertNothingStays(t, server, "/election")

	c = elects(t, server, served) // which SIGHUP ends
	c.term(t, 1)
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGHUP), c.endBy(t, syscall.SIGHUP))
}

// TestASignalWhileTheLeadershipIsGivenUp: the command has exited, so its exit code does not count.
func TestASignalWhileTheLeadershipIsGivenUp(t *testing.T) {
	server := zktest.NewServer(t)
	c := elects(t, server, served)
	c.term(t, 1)
	gate := server.Block(zktest.OnOp("delete"), zktest.OnPath("/election/"))
	succeeds(t, server, "revoke", "/election")
	<-gate.Arrived()
	// zklock may receive the signal in the next campaign only
	next := server.Block(zktest.OnCreate(), zktest.OnPath("/election/"))
	defer next.Open()
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	testbed.Eventually(t, func() bool { return !pending(t, c.Process.Pid, syscall.SIGTERM) }, "the signal arrives")
	gate.Open()
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), c.end(), c.err.String())
}

// TestElectHandsOver: a leader that is asked to release ends its command and queues again.
func TestElectHandsOver(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	e := newElection(t, server)
	first := elects(t, server, served, "--id", "first")
	first.term(t, 1)
	second := elects(t, server, served, "--id", "second")
	candidates(t, e, 2)
	assert.Equal(t, "/election: holders asked to release: 1\n", succeeds(t, server, "revoke", "/election"))
	second.term(t, 1)
	testbed.Eventually(t, func() bool {
		all := candidates(t, e, 2)
		return all[0].ID == "second" && all[1].ID == "first"
	}, "the first one waits behind the second")
	assert.Equal(t, 1, first.terms())
	assert.Equal(t, cli.ExitSignal+int(syscall.SIGTERM), first.endBy(t, syscall.SIGTERM), "it has no command")
	assert.Equal(t, "ended\n", first.out.String())
	assert.Contains(t, first.err.String(), "release requested (zklock revoke) for /election/")
	assert.Equal(t, 9, second.endBy(t, syscall.SIGTERM))
	assertNothingStays(t, server, "/election")
}

// TestALeaderThatDoesNotListenIsNotAsked: the message would replace its id.
func TestALeaderThatDoesNotListenIsNotAsked(t *testing.T) {
	server := zktest.NewServer(t)
	e := newElection(t, server, leader.WithID("a library"))
	term := testbed.Must(e.Campaign(testbed.Context(t)))
	for _, path := range []string{"/election", term.Path()} {
		refuses(t, server, exitConflict, "the leader at "+term.Path()+" is not zklock", "revoke", path)
		assert.Equal(t, "a library", candidates(t, e, 1)[0].ID)
	}
	succeeds(t, server, "revoke", "--force", "0s", "/election")
	candidates(t, e, 0)
	<-term.Done()
}

// TestElectWaitsThroughAnOutage: a candidate whose session expires while it waits joins again,
// without a message.
func TestElectWaitsThroughAnOutage(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := zktest.NewServer(t)
	e := newElection(t, server)
	term := testbed.Must(e.Campaign(testbed.Context(t)))
	c := elects(t, server, served, "--session", "4s", "--grace", "1s", "--connect", "5s")
	waiting := candidates(t, e, 2)[1]
	require.NoError(t, server.ExpireSession(waiting.SessionID))
	testbed.Eventually(t, func() bool {
		all, err := e.Participants(testbed.Context(t))
		return err == nil && len(all) == 2 && all[1].Path != waiting.Path
	}, "it joins again")
	assert.Zero(t, c.terms())
	require.NoError(t, term.Release())
	c.term(t, 1)
	server.RefuseConnections(true) // until its session is over
	server.CutConnections()
	pid, _ := c.term(t, 1)
	testbed.Eventually(t, func() bool { return clitest.Dead(pid) }, "the command is ended")
	server.RefuseConnections(false)
	c.term(t, 2)
	assert.Equal(t, 9, c.endBy(t, syscall.SIGTERM))
}

// TestElectAndOtherKinds: an election does not exclude the holders of a lock, but a selector's is a
// mutex.
func TestElectAndOtherKinds(t *testing.T) {
	server := zktest.NewServer(t)
	c := elects(t, server, served)
	c.term(t, 1)
	for _, flags := range [][]string{nil, {"--read"}, {"--permits", "2"}} {
		args := with("run", flags, "/election", "echo", "in")
		refuses(t, server, exitConflict, "an election is in use at /election, and a ", args...)
	}
	refuses(t, server, exitConflict, "", "elect", "--selector", "/election", "true")
	c.endBy(t, syscall.SIGTERM)

	c = elects(t, server, served, "--selector", "--id", "host-7")
	_, token := c.term(t, 1)
	who, err := newElection(t, server, leader.WithSelector()).Leader(testbed.Context(t))
	require.NoError(t, err)
	assert.Equal(t, []any{"host-7", token}, []any{who.ID, who.Token})
	refuses(t, server, exitNotAcquired, "", "run", "--try", "/election", "true")
	refuses(t, server, exitConflict, "a mutex is in use at /election, and an election does not exclude its holders",
		"elect", "/election", "true")
	c.endBy(t, syscall.SIGTERM)
	assertNothingStays(t, server, "/election")
}
