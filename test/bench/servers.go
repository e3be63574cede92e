package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// servers are a ZooKeeper ensemble, and servers of other systems if they were asked for.
type servers struct {
	addresses  []string
	pids       []int // ZooKeeper's processes, whose CPU is measured; none for existing servers
	etcd       []string
	redis      []string
	containers []string
	network    string
	jars       jars
	through    map[string]string // the address that clients use instead, if there is a network between
}

// Images that scripts/ of this repository builds.
const (
	zookeeperImage = "curator-zookeeper:debian"
	peersImage     = "curator-peers:debian"
	rivalsImage    = "curator-rivals:debian"
)

// startServers starts n servers of each system. Their data are in memory, so that no disk is
// measured.
func startServers(ctx context.Context, n int, with []string, jars jars) (*servers, error) {
	s := &servers{network: fmt.Sprintf("curator-bench-%d-%d", os.Getpid(), n), jars: jars}
	if _, err := docker(ctx, "network", "create", s.network); err != nil {
		return nil, err
	}
	err := s.startZooKeeper(ctx, n)
	if err == nil && slices.Contains(with, "etcd") {
		err = s.startEtcd(ctx, n)
	}
	if err == nil && slices.Contains(with, "redis") {
		err = s.startRedis(ctx, n)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *servers) startZooKeeper(ctx context.Context, n int) error {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf("server.%d=%s-zk%d:2888:3888;2181", i+1, s.network, i+1))
	}
	for i := range n {
		args := []string{"--tmpfs", "/data", "--tmpfs", "/datalog", "-e", "ZOO_MAX_CLIENT_CNXNS=0",
			"-e", "ZOO_MY_ID=" + strconv.Itoa(i+1), "-e", "SERVER_JVMFLAGS=-XX:TieredStopAtLevel=4"}
		if n > 1 {
			args = append(args, "-e", "ZOO_STANDALONE_ENABLED=false", "-e", "ZOO_SERVERS="+strings.Join(members, " "))
		}
		image, command := zookeeperImage, []string(nil)
		if s.jars != "" {
			image, command = peersImage, []string{"sh", "-c", zookeeperCommand}
			args = append(args, s.jars.of("zookeeper", "")...)
		}
		address, pid, err := s.start(ctx, fmt.Sprintf("zk%d", i+1), image, args, command...)
		if err != nil {
			return err
		}
		s.addresses = append(s.addresses, address+":2181")
		s.pids = append(s.pids, pid)
	}
	for _, address := range s.addresses {
		if err := until(ctx, func() error { _, err := ask(ctx, address); return err }); err != nil {
			return err
		}
	}
	return nil
}

// zookeeperCommand runs a server with the class path $JARS, and the settings of the image of
// scripts/zookeeper-image.sh.
const zookeeperCommand = `echo "$ZOO_MY_ID" >/data/myid
{
	printf '%s\n' tickTime=2000 initLimit=5 syncLimit=2 maxClientCnxns=0 admin.enableServer=false dataDir=/data dataLogDir=/datalog
	if [ "$ZOO_SERVERS" ]; then echo standaloneEnabled=false; printf '%s\n' $ZOO_SERVERS; else echo clientPort=2181; fi
} >/data/zoo.cfg
exec java -XX:+UseSerialGC -Xmx256m $SERVER_JVMFLAGS -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$JARS" org.apache.zookeeper.server.quorum.QuorumPeerMain /data/zoo.cfg`

// jars is a folder with the jars of Java's peers, as in CURATOR_TEST_JARS; empty: Debian's packages
// are used. A file SET.cp in it names the jars of a set, which are in its folder jars.
type jars string

// of returns the arguments of docker run by which a container has the jars of a set in $JARS, or
// others if there is no folder.
func (j jars) of(set, others string) []string {
	if j == "" {
		return []string{"-e", "JARS=" + others}
	}
	names, err := os.ReadFile(filepath.Join(string(j), set+".cp"))
	if err != nil { // known when the flags were parsed
		panic(err)
	}
	path := strings.Join(strings.Fields(string(names)), ":/jars/")
	return []string{"-v", filepath.Join(string(j), "jars") + ":/jars:ro", "-e", "JARS=/jars/" + path}
}

// start runs a container, and returns its address and the process id of what runs in it.
func (s *servers) start(ctx context.Context, name, image string, args []string, command ...string) (address string, pid int, err error) {
	name = s.network + "-" + name
	run := slices.Concat([]string{"run", "-d", "--rm", "--name", name, "--network", s.network}, args, []string{image}, command)
	if _, err := docker(ctx, run...); err != nil {
		return "", 0, err
	}
	s.containers = append(s.containers, name)
	out, err := docker(ctx, "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}} {{.State.Pid}}", name)
	if err != nil {
		return "", 0, err
	}
	_, err = fmt.Sscan(out, &address, &pid)
	return address, pid, err
}

// stop removes everything that was started.
func (s *servers) stop() {
	for _, name := range s.containers {
		_, _ = docker(context.Background(), "rm", "-f", name)
	}
	if s.network != "" {
		_, _ = docker(context.Background(), "network", "rm", s.network)
	}
}

func docker(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	if exit, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("docker %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// until repeats f until it succeeds, for a minute.
func until(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// counters are the counters of ZooKeeper's servers since their start.
type counters struct {
	requests int64
	zxid     int64 // the zxid of the newest write
	cpu      time.Duration
}

func (s *servers) counters(ctx context.Context) (c counters, err error) {
	for _, address := range s.addresses {
		a, err := ask(ctx, address)
		if err != nil {
			return c, err
		}
		c.requests += a.received
		c.zxid = max(c.zxid, a.zxid)
	}
	for _, pid := range s.pids {
		c.cpu += cpuOf(pid)
	}
	return c, nil
}

// forClients returns the servers with the addresses that clients use: of ZooKeeper's servers one
// with this role, if it is not any.
func (s *servers) forClients(ctx context.Context, at role) (*servers, error) {
	named := *s
	named.addresses, named.etcd, named.redis = s.reached(s.addresses), s.reached(s.etcd), s.reached(s.redis)
	if at == anyServer {
		return &named, nil
	}
	for _, address := range s.addresses {
		a, err := ask(ctx, address)
		if err != nil {
			return nil, err
		}
		if a.role == at {
			named.addresses = s.reached([]string{address})
			return &named, nil
		}
	}
	return nil, fmt.Errorf("none of %v is %s", s.addresses, at)
}

// answer is a server's reply to srvr.
type answer struct {
	received int64 // packets
	zxid     int64
	role     role
}

var answered = regexp.MustCompile(`(?ms)^Received: (\d+)$.*^Zxid: 0x([0-9a-f]+)$.*^Mode: (\w+)$`)

// ask asks a server of ZooKeeper with the word srvr.
func ask(ctx context.Context, address string) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil { // a server that is starting may never answer
		return a, err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return a, err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return a, err
	}
	m := answered.FindSubmatch(text)
	if m == nil {
		return a, fmt.Errorf("%s is not ready: %q", address, text)
	}
	a.role = role(m[3])
	a.received, err = strconv.ParseInt(string(m[1]), 10, 64)
	if err == nil {
		a.zxid, err = strconv.ParseInt(string(m[2]), 16, 64)
	}
	return a, err
}

// cpuOf returns the CPU time of a process, or 0 if it is unknown.
func cpuOf(pid int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Linux runs
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
