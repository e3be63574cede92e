//go:build unix

package once_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/retry"
)

const (
	realPath  = "/jobs/real"
	tallyPath = "/tally"
)

// tally is a function of a job that adds a line to a node, whatever the node's version.
func tally(client *framework.Client, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		data, _, err := client.Get(ctx, tallyPath)
		if err != nil {
			return err
		}
		return once.Commit(ctx, framework.SetOp(tallyPath, append(data, key+"\n"...)))
	}
}

// TestOnAnEnsemble kills the leader while successes are recorded, and processes with SIGKILL at any
// step of a call. Each key is recorded once, and its operations are carried out once.
func TestOnAnEnsemble(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	e := ensemble.New(t)
	ctx := testbed.Context(t)
	connect := func() *framework.Client {
		client, err := framework.New(e.Servers(), framework.WithSessionTimeout(10*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		return client
	}
	first, second := connect(), connect()
	_, err := first.Create(ctx, tallyPath, []byte{})
	require.NoError(t, err)
	one, other := newOnce(t, first, realPath), newOnce(t, second, realPath)
	keys := 0
	for i := range 4 {
		key := fmt.Sprint("leader ", i)
		keys++
		leader, err := e.Leader(ctx)
		require.NoError(t, err)
		var killed sync.WaitGroup
		f := tally(first, key)
		r, err := one.Do(ctx, key, func(ctx context.Context) error {
			if err := f(ctx); err != nil {
				return err
			}
			killed.Go(func() { assert.NoError(t, e.KillServer(leader)) })
			time.Sleep(rand.N(40 * time.Millisecond)) // the kill takes about as long, and nothing tells when it happens
			return nil
		})
		killed.Wait()
		t.Logf("%s: ran %v, unknown %v: %v", key, r.Ran, retry.Unknown(err), err)
		require.NoError(t, e.StartServer(leader))
		require.NoError(t, e.WaitForQuorum(ctx))
		again := 0
		f = tally(second, key)
		testbed.Eventually(t, func() bool {
			_, err := other.Do(ctx, key, func(ctx context.Context) error { again++; return f(ctx) })
			return err == nil
		}, "the other client finds or makes a record")
		if err == nil {
			require.Zero(t, again, "it was recorded")
		}
	}
	for i := range 8 {
		key := fmt.Sprint("process ", i)
		keys++
		p := exec.Command(os.Args[0], "-test.run=^TestProcess$")
		p.Env = append(os.Environ(), "ONCE_SERVERS="+strings.Join(e.Servers(), ","), "ONCE_KEY="+key)
		out, err := p.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s", out)
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s", out)
		r, err := other.Do(ctx, key, tally(second, key))
		require.NoError(t, err)
		t.Logf("%s: the other client ran it: %v", key, r.Ran)
	}
	require.NoError(t, second.Sync(ctx))
	data, _, err := second.Get(ctx, tallyPath)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	require.Len(t, lines, keys, "each key once: %q", lines)
	all, err := other.Records(ctx)
	require.NoError(t, err)
	require.Len(t, all, keys)
	for i, r := range all {
		require.Equal(t, lines[keys-1-i], r.Key)
	}
}

// TestProcess is a process that is killed at a random step of a call.
func TestProcess(t *testing.T) {
	servers := os.Getenv("ONCE_SERVERS")
	if servers == "" {
		t.Skip("LEFT OUT: TestOnAnEnsemble runs it in a process of its own")
	}
	client, err := framework.New(strings.Split(servers, ","), framework.WithSessionTimeout(4*time.Second))
	require.NoError(t, err)
	require.NoError(t, client.WaitConnected(t.Context()))
	key := os.Getenv("ONCE_KEY")
	f := tally(client, key)
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	_, err = newOnce(t, client, realPath).Do(t.Context(), key, func(ctx context.Context) error {
		if err := f(ctx); err != nil {
			return err
		}
		time.AfterFunc(rand.N(8*time.Millisecond), die) // in the function, in the recording or after it
		time.Sleep(rand.N(4 * time.Millisecond))        // any step of the call may be the last
		return nil
	})
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		time.Sleep(time.Second) // the signal arrives before
	}
	die()
}
