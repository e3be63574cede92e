package docs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/transcript"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

// The programs of FROM-JAVA.md. TestPrograms_MatchTheDocument compares them.

func nightly(ctx context.Context, client *framework.Client, bill func(context.Context) error) error {
	m, err := mutex.New(client, "/billing/nightly") // with lock.WithReentry() if bill acquires it again
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	hold, err := m.Acquire(waiting)
	switch {
	case errors.Is(err, lock.ErrNotAcquired):
		return nil // another process does it
	case err != nil:
		return err // also context.DeadlineExceeded: no server has answered in time
	}
	return hold.Do(ctx, bill) // bill's context ends when the lock may be lost, and the error reports it
}

func export(ctx context.Context, client *framework.Client, write func(context.Context) error) error {
	s, err := semaphore.New(client, "/reports/exports", 3)
	if err != nil {
		return err
	}
	return s.Do(ctx, write) // waits for one of three leases, and releases it
}

type catalogue struct{ rw *rwlock.Lock }

func (c *catalogue) read(ctx context.Context, load func(context.Context) error) error {
	return c.rw.Read().Do(ctx, load)
}

func (c *catalogue) refresh(ctx context.Context, rebuild, load func(context.Context) error) error {
	writing, err := c.rw.Write().Acquire(ctx)
	if err != nil {
		return err
	}
	defer writing.Release()
	if err := rebuild(writing.Context()); err != nil {
		return err
	}
	reading, err := c.rw.Downgrade(writing.Context()) // no writer in between
	if err != nil {
		return err
	}
	defer reading.Release()
	if err := writing.Release(); err != nil {
		return err
	}
	return load(reading.Context())
}

func batch(ctx context.Context, client *framework.Client, items []string, process func(context.Context, string) error) error {
	m, err := mutex.New(client, "/warehouse/batch")
	if err != nil {
		return err
	}
	r, err := revocable.New(m)
	if err != nil {
		return err
	}
	return r.Do(ctx, func(ctx context.Context, revoked <-chan struct{}) error {
		for _, item := range items {
			select {
			case <-revoked:
				return nil // another client is more urgent; the rest is for later
			default:
			}
			if err := process(ctx, item); err != nil {
				return err
			}
		}
		return nil
	})
}

func report(ctx context.Context, client *framework.Client, urgent bool, work func(context.Context) error) error {
	m, err := mutex.New(client, "/reports/lock")
	if err != nil {
		return err
	}
	if urgent {
		return m.Do(ctx, work)
	}
	door, err := mutex.New(client, "/reports/door") // clients that are not urgent pass one at a time
	if err != nil {
		return err
	}
	both, err := multilock.New(door, m) // always in this order
	if err != nil {
		return err
	}
	return both.Do(ctx, work)
}

// TestPrograms_MatchTheDocument: each Go program of FROM-JAVA.md is in this file.
func TestPrograms_MatchTheDocument(t *testing.T) {
	t.Chdir("../..")
	source, programs := read(t, "test/docs/porting_programs_test.go"), transcript.Blocks(t, "docs/FROM-JAVA.md", "go")
	require.Len(t, programs, 5)
	for _, p := range programs {
		require.Contains(t, source, p)
	}
	require.Len(t, transcript.Blocks(t, "docs/FROM-JAVA.md", "java"), 4)
}

func newClient(t *testing.T, server *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	return testbed.NewClient(t, server.Servers(), opts...)
}

// patiently calls f with a context that ends after 50 ms, and then with twice the time, until its
// error is want: a slow machine needs longer to learn the reason. It returns the error.
func patiently(t *testing.T, ctx context.Context, want error, f func(context.Context) error) error {
	t.Helper()
	for limit := 50 * time.Millisecond; ; limit *= 2 {
		require.Less(t, limit, time.Hour, "%v is not the error", want)
		short, cancel := context.WithTimeout(ctx, limit)
		err := f(short)
		cancel()
		if errors.Is(err, want) {
			return err
		}
	}
}

func TestNightly(t *testing.T) {
	server := zktest.NewServer(t)
	ran := 0
	bill := func(context.Context) error { ran++; return nil }
	require.NoError(t, nightly(testbed.Context(t), newClient(t, server), bill))
	require.Equal(t, 1, ran)
	other := testbed.Must(mutex.New(newClient(t, server), "/billing/nightly"))
	hold := testbed.Must(other.Acquire(testbed.Context(t)))
	busy := newClient(t, server)
	_ = patiently(t, testbed.Context(t), nil, func(short context.Context) error { // another process does it
		return nightly(short, busy, bill)
	})
	require.Equal(t, 1, ran)
	require.NoError(t, hold.Release())

	client := newClient(t, server)
	require.NoError(t, client.WaitConnected(testbed.Context(t)))
	server.Freeze()
	defer server.Thaw()
	frozen, cancel := context.WithTimeout(testbed.Context(t), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, nightly(frozen, client, bill), context.DeadlineExceeded, "nobody knows whether another one does it")
}

func TestExport(t *testing.T) {
	server := zktest.NewServer(t)
	var (
		mu           sync.Mutex
		inside, most int
		full         = make(chan struct{}) // closed when as many are inside as may be
		wg           sync.WaitGroup
	)
	filled := sync.OnceFunc(func() { close(full) })
	errs := make(chan error, 8)
	for range 8 {
		client := newClient(t, server)
		wg.Go(func() {
			errs <- export(testbed.Context(t), client, func(context.Context) error {
				mu.Lock()
				inside++
				if most = max(most, inside); most == 3 {
					filled()
				}
				mu.Unlock()
				<-full
				mu.Lock()
				inside--
				mu.Unlock()
				return nil
			})
		})
	}
	wg.Wait()
	for range 8 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 3, most)
}

func TestCatalogue(t *testing.T) {
	server := zktest.NewServer(t)
	l := testbed.Must(rwlock.New(newClient(t, server), "/shop/catalogue"))
	c := &catalogue{l}
	other := testbed.Must(rwlock.New(newClient(t, server), "/shop/catalogue"))
	var order []string
	step := func(name string, readersIn bool) func(context.Context) error {
		return func(context.Context) error {
			order = append(order, name)
			_, err := other.Write().TryAcquire(testbed.Context(t))
			if !errors.Is(err, lock.ErrNotAcquired) {
				return fmt.Errorf("a writer beside %s: %w", name, err)
			}
			hold, err := other.Read().TryAcquire(testbed.Context(t))
			if readersIn != (err == nil) {
				return fmt.Errorf("a reader beside %s: %w", name, err)
			}
			if err == nil {
				return hold.Release()
			}
			return nil
		}
	}
	require.NoError(t, c.refresh(testbed.Context(t), step("rebuild", false), step("load", true)))
	require.NoError(t, c.read(testbed.Context(t), step("read", true)))
	require.Equal(t, []string{"rebuild", "load", "read"}, order)
}

func TestBatch(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	other := testbed.Must(mutex.New(client, "/warehouse/batch"))
	var done []string
	require.NoError(t, batch(testbed.Context(t), newClient(t, server), []string{"a", "b", "c", "d"}, func(ctx context.Context, item string) error {
		done = append(done, item)
		if item != "b" {
			return nil
		}
		require.Equal(t, 1, testbed.Must(revocable.RevokeAll(testbed.Context(t), other)))
		// The holder hears of it a moment later.
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
		return nil
	}))
	require.Equal(t, []string{"a", "b"}, done)
	hold := testbed.Must(other.TryAcquire(testbed.Context(t)))
	require.NoError(t, hold.Release())
}
