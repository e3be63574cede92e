package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Peers are clients in other languages. They run in a container and take the same turns: a line
// with milliseconds begins a turn, and a line with its result ends it.

//go:embed peers/Bench.java
var javaBench string

//go:embed peers/bench.py
var kazooBench string

func enterJava(ctx context.Context, s *servers, w workload, path string) (*entrant, error) {
	return enterPeer(ctx, s, w, path, javaBench, javaCommand)
}

// debianJars is the class path of Debian's Curator. ZooKeeper's own jars precede the others, whose
// manifests name them elsewhere, and one of several logs.
const debianJars = "/usr/share/java/zookeeper-jute.jar:/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/*"

// javaCommand runs $PROGRAM with the class path $JARS.
const javaCommand = `printf %s "$PROGRAM" >/tmp/Program.java && ` +
	`exec java -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel=off -cp "$JARS" /tmp/Program.java "$@"`

// peerCommand runs a command in a container in the network of the servers, with the text of a
// program in $PROGRAM.
func peerCommand(ctx context.Context, s *servers, program, command string, args ...string) *exec.Cmd {
	return namedPeerCommand(ctx, s, "", program, command, args...)
}

// namedPeerCommand returns the command of a peer in a named container. Docker chooses the name if
// it is empty.
func namedPeerCommand(ctx context.Context, s *servers, name, program, command string, args ...string) *exec.Cmd {
	run := slices.Concat([]string{"run", "-i", "--rm", "--network", s.network, "-e", "PROGRAM"}, s.jars.of("curator", debianJars))
	if name != "" {
		run = append(run, "--name", name)
	}
	run = append(run, peersImage, "sh", "-c", command, "peer")
	cmd := exec.CommandContext(ctx, "docker", slices.Concat(run, args)...)
	cmd.Env = append(cmd.Environ(), "PROGRAM="+program)
	return cmd
}

func enterKazoo(ctx context.Context, s *servers, w workload, path string) (*entrant, error) {
	return enterPeer(ctx, s, w, path, kazooBench, `exec python3 -c "$PROGRAM" "$@"`)
}

// enterPeer starts a program with: servers, path, kind, locks, waiters, clients (each or one), hold
// (true or false) and leases.
func enterPeer(ctx context.Context, s *servers, w workload, path, program, command string) (*entrant, error) {
	cmd := peerCommand(ctx, s, program, command,
		strings.Join(s.addresses, ","), path, kindNames[w.kind], strconv.Itoa(w.locks), strconv.Itoa(w.waiters),
		strconv.FormatBool(w.each), strconv.FormatBool(w.hold), strconv.Itoa(w.leasesOf()))
	p, err := startPeer("", cmd)
	if err != nil {
		return nil, err
	}
	e := &entrant{workload: w}
	e.onClose(func() { _ = p.stop() })
	e.drive = func(_ context.Context, turn time.Duration) (measure, error) {
		numbers, err := p.ask(strconv.FormatInt(turn.Milliseconds(), 10))
		if err != nil {
			return measure{}, err
		}
		return newMeasure(numbers)
	}
	return e, nil
}

// kindNames are the names of kinds in the protocol of the peers.
var kindNames = map[kind]string{mutexes: "mutex", handedOn: "mutex", retained: "mutex", readers: "read", writers: "write", mostRead: "mostread", leases: "semaphore", increments: "counter", inTurns: "turns"}

// newMeasure returns the measure of a peer's turn from its reply: cycles, nanoseconds, nanoseconds
// of CPU, cycles that were given up, and the nanoseconds of hand-offs.
func newMeasure(numbers []int64) (m measure, err error) {
	if len(numbers) < 4 {
		return m, fmt.Errorf("unexpected reply %v of the peer", numbers)
	}
	m.cycles, m.took, m.client, m.givenUp = int(numbers[0]), time.Duration(numbers[1]), time.Duration(numbers[2]), int(numbers[3])
	for _, n := range numbers[4:] {
		m.handOffs = append(m.handOffs, time.Duration(n))
	}
	return m, nil
}

// peer is a program that answers lines.
type peer struct {
	system string
	in     io.WriteCloser
	lines  *bufio.Reader
	stop   func() error // ends it, and says why it has ended
}

func (p *peer) ask(line string) ([]int64, error) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return nil, fmt.Errorf("%s: %w", line, errors.Join(err, p.stop()))
	}
	answer, err := p.lines.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line, errors.Join(err, p.stop()))
	}
	var numbers []int64
	for _, field := range strings.Fields(answer) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: unexpected reply %q of the peer", line, answer)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// numbers asks for n numbers.
func (p *peer) numbers(line string, n int) ([]int64, error) {
	numbers, err := p.ask(line)
	if err == nil && len(numbers) != n {
		err = fmt.Errorf("%s: unexpected reply %v of the peer", line, numbers)
	}
	return numbers, err
}

// number asks for one number.
func (p *peer) number(line string) (int64, error) {
	numbers, err := p.numbers(line, 1)
	if err != nil {
		return 0, err
	}
	return numbers[0], nil
}

// tell asks lines, one after the other, whose replies have no meaning.
func (p *peer) tell(lines ...string) error {
	for _, line := range lines {
		if _, err := p.ask(line); err != nil {
			return err
		}
	}
	return nil
}

// serveLines is a peer's side: it answers lines until there are no more.
func serveLines(in io.Reader, out io.Writer, answer func(words []string) ([]int64, error)) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		numbers, err := answer(strings.Fields(lines.Text()))
		if err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if _, err := fmt.Fprintln(out, strings.Trim(fmt.Sprint(numbers), "[]")); err != nil {
			return err
		}
	}
	return lines.Err()
}

// startPeer starts a command that answers lines.
func startPeer(system string, cmd *exec.Cmd) (*peer, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &peer{system, in, bufio.NewReader(out), sync.OnceValue(func() error {
		in.Close() // ends it
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w: %s", err, said.String())
		}
		return nil
	})}, nil
}
