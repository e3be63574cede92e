package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// With -network all systems reach their servers through a proxy with a delay. It
// is a separate process, so that its CPU and allocations are not counted as a client's. Servers
// reach each other without it.

// addNetwork starts the proxy. From then on [servers.forClients] returns the addresses of the
// proxy.
func (s *servers) addNetwork(ctx context.Context, delay time.Duration) (stop func() error, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	host, err := s.host(ctx)
	if err != nil {
		return nil, err
	}
	targets := slices.Concat(s.addresses, s.etcd, s.redis)
	p, err := startPeer("network", exec.CommandContext(ctx, program, slices.Concat([]string{"-proxy", host, "-network", delay.String()}, targets)...))
	if err != nil {
		return nil, err
	}
	line, err := p.lines.ReadString('\n')
	proxies := strings.Fields(line)
	if err == nil && len(proxies) != len(targets) {
		err = fmt.Errorf("%q does not have an address for each of %v", line, targets)
	}
	if err != nil {
		return nil, fmt.Errorf("network: %w", errors.Join(err, p.stop()))
	}
	s.through = map[string]string{}
	for i, target := range targets {
		s.through[target] = proxies[i]
	}
	return p.stop, nil
}

// host returns the address of this machine, at which containers reach it, too.
func (s *servers) host(ctx context.Context) (string, error) {
	if s.network == "" {
		return "127.0.0.1", nil
	}
	return docker(ctx, "network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", s.network)
}

// reached returns the addresses at which clients reach servers.
func (s *servers) reached(addresses []string) (reached []string) {
	for _, address := range addresses {
		if proxy := s.through[address]; proxy != "" {
			address = proxy
		}
		reached = append(reached, address)
	}
	return reached
}

// serveNetwork is the proxy. It listens at host for each of the targets, prints the addresses in
// one line, and ends when in does.
func serveNetwork(ctx context.Context, host string, delay time.Duration, targets []string, in io.Reader, out io.Writer) error {
	if delay <= 0 {
		return fmt.Errorf("delay %v is not positive", delay)
	}
	// A goroutine that waits for a delay keeps its processor of the runtime for a while.
	runtime.GOMAXPROCS(512)
	var addresses []string
	for _, target := range targets {
		r, err := startRelay(ctx, host, target, delay)
		if err != nil {
			return err
		}
		defer r.close()
		addresses = append(addresses, r.address())
	}
	if _, err := fmt.Fprintln(out, strings.Join(addresses, " ")); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// parcel is the data of one read, and when it is due.
type parcel struct {
	bytes []byte
	due   time.Time
}

// passLater writes the data that it reads, delay later.
func passLater(to io.Writer, from net.Conn, delay time.Duration) {
	parcels := make(chan parcel, 1024)
	go func() { // ends when from is closed
		defer close(parcels)
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				parcels <- parcel{slices.Clone(buf[:n]), time.Now().Add(delay)}
			}
			if err != nil {
				parcels <- parcel{nil, time.Now().Add(delay)} // the end takes as long
				return
			}
		}
	}()
	failed := false
	for p := range parcels {
		if failed {
			continue
		}
		sleepUntil(p.due)
		if _, err := to.Write(p.bytes); err != nil {
			from.Close()
			failed = true
		}
	}
}

// sleepUntil is more exact than time.Sleep, which rounds up to a millisecond while there is nothing
// else to do.
func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		ts := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&ts, nil) // a signal ends it early
	}
}
