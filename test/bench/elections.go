package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed peers/Elections.java
var javaElections string

// electionBench compares elections with Java's LeaderLatch: how long there is no leader after a
// resignation, and after the leader's process was killed. Each candidate has its own process; the
// clock is the machine's.
type electionBench struct {
	timeout   time.Duration // the timeout of the sessions
	handOvers int           // counted hand-overs; warmUp more precede them
	warmUp    int
	kills     int
	pause     time.Duration // the pause in which a candidate that has joined sets its watch
}

// electionSystem is one implementation of an election.
type electionSystem struct {
	name string
	// command is the program of a candidate. If it runs in a container, that has this name.
	command  func(ctx context.Context, container string) *exec.Cmd
	contains bool // it runs in a container
	killed   bool // it takes part in the kills
}

// electionResult holds the measurements of one system.
type electionResult struct {
	system    string
	timeout   time.Duration   // the granted timeout of the sessions
	handOvers []time.Duration // from the call of resign to the next term
	kills     []time.Duration // from the call of kill to the next term
}

// election is one system's part of a run.
type election struct {
	electionSystem
	path string
	pair [2]*peer // the first one leads
	out  electionResult
}

var containers int

// start starts a candidate. kill kills its process, and returns when it began to do so.
func (e *election) start(ctx context.Context) (p *peer, kill func() (time.Time, error), err error) {
	containers++
	name := fmt.Sprintf("bench-candidate-%d-%d", os.Getpid(), containers)
	cmd := e.command(ctx, name)
	p, err = startPeer(e.name, cmd)
	kill = func() (time.Time, error) { return time.Now(), cmd.Process.Kill() }
	if e.contains {
		kill = func() (time.Time, error) { return killContainer(ctx, name) }
	}
	return p, kill, err
}

// killContainer kills a candidate in a container. Docker may need a second for that, so the process
// is killed without it if it is on this machine.
func killContainer(ctx context.Context, name string) (time.Time, error) {
	out, err := docker(ctx, "inspect", "-f", "{{.State.Pid}}", name)
	if err != nil {
		return time.Time{}, err
	}
	if pid, err := strconv.Atoi(out); err == nil && isCandidate(pid) {
		return time.Now(), syscall.Kill(pid, syscall.SIGKILL)
	}
	now := time.Now()
	_, err = docker(ctx, "kill", "-s", "KILL", name)
	return now, err
}

// isCandidate reports whether a process of this machine is a candidate, by its command line.
func isCandidate(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && pid > 1 && (bytes.Contains(line, []byte("-election-peer")) || bytes.Contains(line, []byte("/tmp/Program.java")))
}

// run gives each system its turns.
func (b *electionBench) run(ctx context.Context, systems []electionSystem) (results []electionResult, err error) {
	var all []*election
	defer func() {
		for _, e := range all {
			for _, p := range e.pair {
				if p != nil {
					_ = p.stop()
				}
			}
		}
	}()
	root := time.Now().UnixNano()
	for i, s := range systems {
		e := &election{electionSystem: s, path: fmt.Sprintf("/bench-election-%d-%d", root, i), out: electionResult{system: s.name}}
		all = append(all, e)
		if err := b.begin(ctx, e); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for round := range b.warmUp + b.handOvers {
		for _, e := range all {
			took, err := b.handOver(e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
			if round >= b.warmUp {
				e.out.handOvers = append(e.out.handOvers, took)
			}
		}
	}
	for range b.kills {
		for _, e := range all {
			if !e.killed {
				continue
			}
			if err := b.kill(ctx, e); err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
		}
	}
	for _, e := range all {
		if e.killed && e.out.timeout != b.timeout {
			return nil, fmt.Errorf("%s: session timeout %v instead of %v", e.name, e.out.timeout, b.timeout)
		}
		results = append(results, e.out)
	}
	return results, nil
}

// begin starts two candidates, the first of which leads.
func (b *electionBench) begin(ctx context.Context, e *election) (err error) {
	for i := range e.pair {
		if e.pair[i], _, err = e.start(ctx); err != nil {
			return err
		}
	}
	if _, err := e.pair[0].number("join " + e.path); err != nil {
		return err
	}
	if _, err = e.pair[0].number("lead"); err != nil || !e.killed {
		return err
	}
	timeout, err := e.pair[0].number("session")
	e.out.timeout = time.Duration(timeout)
	return err
}

// handOver asks the leader to resign while the other candidate waits.
func (b *electionBench) handOver(e *election) (time.Duration, error) {
	if _, err := e.pair[1].number("join " + e.path); err != nil {
		return 0, err
	}
	// The waiting candidate sets its watch during the pause. A LeaderLatch does not report that,
	// and a look from outside does not show whose watch it is. If the pause is too short, a term
	// begins later: the figure is higher, but the result stays valid.
	time.Sleep(b.pause)
	resigned, err := e.pair[0].number("resign")
	if err != nil {
		return 0, err
	}
	began, err := e.pair[1].number("lead")
	if err == nil && began < resigned {
		err = fmt.Errorf("the next term began %v before the last one ended", time.Duration(resigned-began))
	}
	e.pair[0], e.pair[1] = e.pair[1], e.pair[0]
	return time.Duration(began - resigned), err
}

// kill starts a new leader, and kills it while one of the pair waits. The election of the pair has
// ended by then.
func (b *electionBench) kill(ctx context.Context, e *election) error {
	next := e.pair[0]
	if len(e.out.kills) == 0 {
		if _, err := next.number("resign"); err != nil {
			return err
		}
	}
	victim, kill, err := e.start(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = victim.stop() }()
	if err := victim.tell("join "+e.path, "lead"); err != nil {
		return err
	}
	if err := next.tell("join " + e.path); err != nil {
		return err
	}
	// As above. Sessions end with a tick of the server, and depend on the last ping: the time to
	// the kill is random.
	time.Sleep(b.pause + rand.N(b.timeout/2))
	killed, err := kill()
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, victim.lines) // ends with the process
	began, err := next.number("lead")
	if err != nil {
		return err
	}
	if began < killed.UnixNano() {
		return fmt.Errorf("the next term began before the leader was killed")
	}
	e.out.kills = append(e.out.kills, time.Unix(0, began).Sub(killed))
	_, err = next.number("resign")
	return err
}

// printElections writes a table in Markdown. The others are compared with the first system.
func printElections(w io.Writer, remark string, results []electionResult) {
	fmt.Fprintf(w, "\nelections%s\n\n| | resign to the next term | × %s | 99 %% | worst | rounds | kill -9 to the next term | least | worst | rounds | session timeout |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", remark, results[0].system)
	for _, r := range results {
		var ratios []float64
		for i, took := range r.handOvers {
			ratios = append(ratios, float64(took)/float64(max(1, results[0].handOvers[i])))
		}
		fmt.Fprintf(w, "| %s | %s | %.2f | %s | %s | %d |", r.system, millis(quantile(r.handOvers, 0.5)), quantile(ratios, 0.5),
			millis(quantile(r.handOvers, 0.99)), millis(quantile(r.handOvers, 1)), len(r.handOvers))
		if len(r.kills) == 0 {
			fmt.Fprintln(w, strings.Repeat("  |", 5))
			continue
		}
		fmt.Fprintf(w, " %s | %s | %s | %d | %v |\n", millis(quantile(r.kills, 0.5)), millis(slices.Min(r.kills)),
			millis(quantile(r.kills, 1)), len(r.kills), r.timeout)
	}
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 2, 64) + " ms"
}

// elections compares elections and prints the results.
func (o *options) elections(ctx context.Context, s *servers, remark string) error {
	near, err := s.forClients(ctx, anyServer)
	if err != nil {
		return err
	}
	systems, err := o.electionSystems(near)
	if err != nil {
		return err
	}
	b := electionBench{timeout: o.session, handOvers: 40 * o.rounds, warmUp: 20, kills: 2 * o.rounds, pause: 50 * time.Millisecond}
	results, err := b.run(ctx, systems)
	if err != nil {
		return err
	}
	printElections(os.Stdout, remark, results)
	return nil
}

func (o *options) electionSystems(s *servers) ([]electionSystem, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addresses, java := strings.Join(s.addresses, ","), slices.Contains(o.with, "java")
	ours := func(who string) func(context.Context, string) *exec.Cmd {
		return func(ctx context.Context, container string) *exec.Cmd {
			args := []string{"-election-peer", who, "-session", o.session.String(), "-zookeeper", addresses}
			if !java {
				return exec.CommandContext(ctx, program, args...)
			}
			// Then all are in containers of the same image.
			run := []string{"run", "-i", "--rm", "--name", container, "--network", s.network, "-v", program + ":/bench:ro", peersImage, "/bench"}
			return exec.CommandContext(ctx, "docker", slices.Concat(run, args)...)
		}
	}
	systems := []electionSystem{{"floor", ours("floor"), java, false}, {"ours", ours("ours"), java, true}}
	if java {
		systems = append(systems, electionSystem{"LeaderLatch", func(ctx context.Context, container string) *exec.Cmd {
			return namedPeerCommand(ctx, s, container, javaElections, javaCommand, addresses, strconv.FormatInt(o.session.Milliseconds(), 10))
		}, true, true})
	}
	return systems, nil
}
