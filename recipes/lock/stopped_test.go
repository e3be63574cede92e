//go:build linux

package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

// holderEnv turns this test program into a holder, in a process that a test can stop. Its value is
// the servers.
const holderEnv = "CURATOR_LOCK_TEST_HOLDER"

func init() {
	if servers := os.Getenv(holderEnv); servers != "" {
		if err := beHolder(strings.Split(servers, ",")); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

const (
	stoppedLock    = "/stopped/lock"
	stoppedData    = "/stopped/data"
	stoppedTimeout = 4 * time.Second
)

// beHolder acquires, says so, waits for a line, writes with its guard and says what became of it
// and of its hold, a line each.
func beHolder(servers []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	client, err := framework.New(servers,
		framework.WithSessionTimeout(stoppedTimeout),
		framework.WithErrorPolicy(connstate.LostEndsHold),
		framework.WithRetryPolicy(retry.Forever(100*time.Millisecond)))
	if err != nil {
		return err
	}
	defer client.Close()
	q, err := lock.New(client, stoppedLock, "lock-", nil)
	if err != nil {
		return err
	}
	h, err := q.Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Println("held")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	began := time.Now()
	for err = errors.New("not tried"); err != nil && !errors.Is(err, zk.ErrNoNode); {
		if ctx.Err() != nil {
			return err
		}
		_, err = client.Multi(ctx, h.Guard(), &zk.SetDataRequest{Path: stoppedData, Data: []byte("the stale holder"), Version: -1})
	}
	fmt.Println("write:", err)
	select {
	case <-h.Done():
		fmt.Println("hold:", h.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Println("after:", time.Since(began))
	return nil
}

// TestHolderThatWasStoppedIsRefused stops a process (SIGSTOP) that holds for longer than its
// session. It cannot be notified in time, so its guard must refuse the first thing that it does.
func TestHolderThatWasStoppedIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("inprocess", func(t *testing.T) {
		t.Parallel()
		testStopped(t, zktest.NewServer(t).Servers())
	})
	t.Run("ensemble", func(t *testing.T) {
		t.Parallel()
		testStopped(t, ensemble.New(t).Servers())
	})
}

func testStopped(t *testing.T, servers []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	client, err := framework.New(servers)
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Create(ctx, stoppedData, []byte("nobody"), framework.ContainerParents())
	require.NoError(t, err)

	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), holderEnv+"="+strings.Join(servers, ","))
	child.Stderr = os.Stderr
	// It may be stopped when this process is killed.
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() {
		_ = child.Process.Kill() // works on a stopped process, too
		_ = child.Wait()
	}()
	lines := bufio.NewReader(stdout)
	line := func() string {
		s, err := lines.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(s)
	}
	require.Equal(t, "held", line())

	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	hold := acquireIn(t, ctx, newQueue(t, client, stoppedLock))
	t.Logf("the next one held %v after the holder was stopped", time.Since(stopped))
	_, err = client.Multi(ctx, hold.Guard(), &zk.SetDataRequest{Path: stoppedData, Data: []byte("the next holder"), Version: -1})
	require.NoError(t, err)

	_, err = io.WriteString(stdin, "write\n") // the first line that it reads when it resumes
	require.NoError(t, err)
	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	require.Contains(t, line(), zk.ErrNoNode.Error(), "the guard refuses")
	cause := line() // from events of the meantime, or from the clock
	require.True(t, strings.Contains(cause, framework.ErrSessionLost.Error()) || strings.Contains(cause, lock.ErrNodeDeleted.Error()), cause)
	t.Log("both ", line())
	data, _, err := client.Get(ctx, stoppedData)
	require.NoError(t, err)
	require.Equal(t, "the next holder", string(data))
	require.NoError(t, hold.Err())
	assert.NoError(t, hold.Release())
	require.NoError(t, child.Wait())
}
