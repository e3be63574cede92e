package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/barrier"
)

// memberArgs has the servers, path, marks, name and number of members, if the process is a member
// of a double barrier.
const memberArgs = "INTEROP_MEMBER"

// serveMember does what lines say, as Java's member in Peer.java.
func serveMember(args string) {
	words := strings.Fields(args)
	servers, path, marks, name := strings.Split(words[0], ","), words[1], words[2], words[3]
	n, err := strconv.Atoi(words[4])
	if err != nil {
		log.Fatal(err)
	}
	client, err := framework.New(servers, framework.WithSessionTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	var entry *barrier.Entry
	enter := func(round string) (came int, err error) {
		// an earlier try may have created the node
		if _, err := client.Create(ctx, marks+"/"+round+"-"+name, nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return 0, err
		}
		d, err := barrier.NewDouble(client, path+"/"+round, n)
		if err != nil {
			return 0, err
		}
		session, err := client.Session(ctx)
		if err != nil {
			return 0, err
		}
		fmt.Printf("session %x\n", session.ID())
		if entry, err = d.Enter(ctx); err != nil {
			return 0, err
		}
		if err := client.Sync(ctx); err != nil {
			return 0, err
		}
		names, _, err := client.Children(ctx, marks)
		for _, name := range names {
			if strings.HasPrefix(name, round+"-") {
				came++
			}
		}
		return came, err
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var err error
		if round, found := strings.CutPrefix(lines.Text(), "enter "); found {
			var came int
			if came, err = enter(round); err == nil {
				fmt.Println("inside", came)
			}
		} else if err = entry.Leave(ctx); err == nil {
			fmt.Println("through")
		}
		if err != nil {
			fmt.Println("failed", err)
		}
	}
	client.Close()
}

// member is a process that enters and leaves double barriers. One of Java's runs in a container.
type member struct {
	name      string
	container string // empty: it is one of ours
	cmd       *exec.Cmd
	in        io.WriteCloser
	lines     chan string
	session   int64  // of its node
	heard     string // an unprocessed line
}

func (m *member) java() bool { return m.container != "" }

func (m *member) say(t *testing.T, line string) {
	t.Helper()
	require.NoError(t, testbed.Err(fmt.Fprintln(m.in, line)), m.name)
}

// signal sends a signal to the process.
func (m *member) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if !m.java() {
		require.NoError(t, m.cmd.Process.Signal(s))
		return
	}
	out, err := exec.Command("docker", "kill", "-s", strconv.Itoa(int(s)), m.container).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// kill ends the process, and waits for that.
func (m *member) kill(t *testing.T) {
	t.Helper()
	m.signal(t, syscall.SIGKILL)
	_ = m.in.Close()
	for range m.lines {
	}
	_ = m.cmd.Wait() // it says that it was killed
}

// drill has members enter and leave together, round after round, and disturbs one of them in some
// rounds.
type drill struct {
	scene
	stage   stage
	members []*member
	started int

	kills, stops, expired, failures int
}

const memberCount = 6 // 3 of Java's and 3 of ours

// start starts a member's process.
func (d *drill) start(t *testing.T, i int) *member {
	t.Helper()
	m := &member{name: fmt.Sprint("member-", i), lines: make(chan string, 1000)}
	args := []string{strings.Join(d.stage.ensemble.Servers(), ","), d.path, d.marks, m.name, strconv.Itoa(memberCount)}
	if i%2 == 0 {
		d.started++
		classes := testbed.Must(programs["Peer"]())
		m.container = fmt.Sprintf("curator-member-%d-%d", os.Getpid(), d.started)
		m.cmd = exec.Command("docker", append([]string{"run", "-i", "--rm", "--name", m.container, "--network", "host",
			"--label", fmt.Sprintf("io.gocurator.owner=%s:%d", hostname(), os.Getpid()),
			"-e", "PEER", "-e", "JARS=" + jars, "-e", "LC_ALL=C.UTF-8", "curator-peers:" + peersTag(),
			"sh", "-c", runPeer, "Peer", args[0], "member"}, args[1:]...)...)
		m.cmd.Env = append(os.Environ(), "PEER="+classes)
	} else {
		m.cmd = exec.Command(os.Args[0])
		m.cmd.Env = append(os.Environ(), memberArgs+"="+strings.Join(args, " "))
		m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	m.in = testbed.Must(m.cmd.StdinPipe())
	out := testbed.Must(m.cmd.StdoutPipe())
	require.NoError(t, m.cmd.Start())
	go func() { // ends with the process
		defer close(m.lines)
		for text := bufio.NewScanner(out); text.Scan(); {
			m.lines <- text.Text()
		}
	}()
	return m
}

// hear waits for a line that begins so, and returns the rest. ok is false if the member has failed,
// as only Java's may.
func (d *drill) hear(t *testing.T, ctx context.Context, m *member, start string) (rest string, ok bool) {
	t.Helper()
	for {
		line := m.heard
		if m.heard = ""; line == "" {
			select {
			case line, ok = <-m.lines:
				require.True(t, ok, "%s ended without %q", m.name, start)
			case <-ctx.Done():
				require.FailNow(t, "waited in vain", "for %q of %s", start, m.name)
			}
		}
		if rest, found := strings.CutPrefix(line, start); found {
			return strings.TrimSpace(rest), true
		}
		if strings.HasPrefix(line, "failed") {
			t.Logf("%s, java: %v: %s", m.name, m.java(), line)
			require.True(t, m.java(), "one of ours has failed: %s", line)
			d.failures++
			return "", false
		}
	}
}

// silent checks that no member has said that it is inside, or through.
func (d *drill) silent(t *testing.T, round int, what string) {
	t.Helper()
	for _, m := range d.members {
		select {
		case m.heard = <-m.lines:
			require.False(t, strings.HasPrefix(m.heard, what), "round %d: %s is %s too early", round, m.name, m.heard)
		default:
		}
	}
}

// enter has a member enter, and notes its session. One of Java's that has lost its last session may
// fail before that.
func (d *drill) enter(t *testing.T, ctx context.Context, m *member, round int) {
	t.Helper()
	m.say(t, fmt.Sprint("enter ", round))
	text, ok := d.hear(t, ctx, m, "session")
	for !ok {
		m.say(t, fmt.Sprint("enter ", round))
		text, ok = d.hear(t, ctx, m, "session")
	}
	m.session = int64(testbed.Must(strconv.ParseUint(text, 16, 64)))
}

// await waits until n members have a node.
func (d *drill) await(t *testing.T, ctx context.Context, round, n int) {
	t.Helper()
	until(t, ctx, func() bool {
		names, _, err := d.client.Children(ctx, fmt.Sprintf("%s/%d", d.path, round))
		return err == nil && len(names) == n || n == 0 && errors.Is(err, zk.ErrNoNode)
	}, fmt.Sprintf("%d nodes in round %d", n, round))
}

// again starts a member anew whose node is gone.
func (d *drill) again(t *testing.T, ctx context.Context, i int) *member {
	t.Helper()
	d.members[i] = d.start(t, i)
	_, ok := d.hear(t, ctx, d.members[i], "ready")
	require.True(t, ok)
	return d.members[i]
}

// killed kills a member and ends its session: the process counts until then.
func (d *drill) killed(t *testing.T, ctx context.Context, m *member) {
	t.Helper()
	d.kills++
	m.kill(t)
	require.NoError(t, d.stage.ensemble.ExpireSession(ctx, m.session))
}

// disturbWaiting does something to a member that waits in Enter, and returns when it waits again.
func (d *drill) disturbWaiting(t *testing.T, ctx context.Context, round, i int) {
	t.Helper()
	m := d.members[i]
	ends := rand.N(2) == 0
	switch rand.N(2) {
	case 0:
		d.killed(t, ctx, m)
		d.await(t, ctx, round, memberCount-2)
		d.enter(t, ctx, d.again(t, ctx, i), round)
	case 1:
		d.stops++
		m.signal(t, syscall.SIGSTOP)
		if ends { // as after a longer stop
			d.expired++
			require.NoError(t, d.stage.ensemble.ExpireSession(ctx, m.session))
			d.await(t, ctx, round, memberCount-2)
		} else {
			require.NoError(t, wait.Sleep(ctx, 500*time.Millisecond))
		}
		m.signal(t, syscall.SIGCONT)
		if ends && m.java() { // its enter fails with its session, where ours continues
			_, inside := d.hear(t, ctx, m, "inside")
			require.False(t, inside, "round %d: %s is inside without its session", round, m.name)
			d.enter(t, ctx, m, round)
		}
	}
	d.await(t, ctx, round, memberCount-1)
}

// disturbInside does something to a member that is inside. It returns false if it is inside no
// more.
func (d *drill) disturbInside(t *testing.T, ctx context.Context, i int) bool {
	t.Helper()
	m := d.members[i]
	if rand.N(2) == 0 {
		d.killed(t, ctx, m)
		d.again(t, ctx, i)
		return false
	}
	d.stops++
	m.signal(t, syscall.SIGSTOP)
	ends := rand.N(2) == 0
	if ends {
		d.expired++
		require.NoError(t, d.stage.ensemble.ExpireSession(ctx, m.session))
	}
	require.NoError(t, wait.Sleep(ctx, 500*time.Millisecond))
	m.signal(t, syscall.SIGCONT)
	return !ends
}

// round is one double barrier. No client is inside before the last one has come, nor through before
// the last one leaves.
func (d *drill) round(t *testing.T, ctx context.Context, round int) {
	t.Helper()
	order := rand.Perm(memberCount)
	last, victim := order[0], order[1]
	for _, i := range order[1:] {
		d.enter(t, ctx, d.members[i], round)
	}
	d.await(t, ctx, round, memberCount-1)
	if round%4 == 1 {
		d.disturbWaiting(t, ctx, round, victim)
	}
	d.silent(t, round, "inside")
	d.enter(t, ctx, d.members[last], round)
	inside := map[int]bool{}
	for i, m := range d.members {
		came, ok := d.hear(t, ctx, m, "inside")
		if ok {
			require.Equal(t, strconv.Itoa(memberCount), came, "round %d: %s is inside with too few", round, m.name)
		} else { // its node may be there (CURATOR-80)
			d.killed(t, ctx, m)
			d.again(t, ctx, i)
		}
		inside[i] = ok
	}
	if round%4 == 3 && inside[victim] {
		inside[victim] = d.disturbInside(t, ctx, victim)
	}
	if inside[last] {
		for i, m := range d.members {
			if inside[i] && i != last {
				m.say(t, "leave")
			}
		}
		require.NoError(t, wait.Sleep(ctx, 20*time.Millisecond))
		d.silent(t, round, "through")
	}
	for i, m := range d.members {
		if inside[i] && (i == last || !inside[last]) {
			m.say(t, "leave")
		}
	}
	for i, m := range d.members {
		if inside[i] {
			_, ok := d.hear(t, ctx, m, "through")
			if !ok {
				d.killed(t, ctx, m)
				d.again(t, ctx, i)
			}
		}
	}
	d.await(t, ctx, round, 0)
}

// javaMembers has 3 members of Java's and 3 of ours enter and leave double barriers, while some are
// killed and stopped.
func javaMembers(t *testing.T, s stage) {
	rounds := testlevel.Pick(8, 8, 200)
	ctx := testbed.Timeout(t, 4*testTimeout)
	d := &drill{stage: s, scene: s.newScene(t)}
	t.Cleanup(func() {
		for _, m := range d.members { // some may have been killed already
			_ = exec.Command("docker", "rm", "-f", m.container).Run()
			_ = m.cmd.Process.Kill()
			_ = m.cmd.Wait()
		}
	})
	for i := range memberCount {
		d.members = append(d.members, d.start(t, i))
	}
	for _, m := range d.members {
		_, ok := d.hear(t, ctx, m, "ready")
		require.True(t, ok)
	}
	began := time.Now()
	for round := range rounds {
		d.round(t, ctx, round)
	}
	t.Logf("%d rounds in %v: %d killed, %d stopped, of which %d lost their sessions; Java's calls failed %d times",
		rounds, time.Since(began).Round(time.Second), d.kills, d.stops, d.expired, d.failures)
	for round := range rounds {
		d.await(t, ctx, round, 0)
	}
}
