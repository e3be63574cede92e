package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/matrix"
	"github.com/gocurator/curator/recipes/once"
)

var onceStories = []matrix.Story{
	{Name: "job", Run: jobs, Join: worker, Values: []string{"/once"}, Remains: []string{"/once"}, Lookalikes: []string{lookalike + "lock-0000000000", "/once"}},
	{Name: "scheduled job", Run: schedules, Join: worker, Values: []string{"/once"}, Remains: []string{"/once"}, Lookalikes: []string{lookalike + "lock-0000000000"}},
}

// worker lets one more client run a job of its own at the path.
func worker(s *matrix.Scene, client *framework.Client, id string) (func(), error) {
	job, err := once.New(client, s.Path)
	if err != nil {
		return nil, err
	}
	task := s.Go(func() error {
		_, err := job.Do(s.Peer, s.Name(id), func(ctx context.Context) error { return context.Cause(ctx) })
		return err
	})
	return func() { _ = task.Wait() }, nil // the others decide
}

// jobs has A and B run one job at the same time, and A another one whose first try fails.
func jobs(s *matrix.Scene) error {
	a, b := both(s, func(client *framework.Client) (*once.Once, error) { return once.New(client, s.Path) })
	key := s.Name(fmt.Sprint(time.Now().UnixNano())) // each round has its own
	var ran atomic.Int32
	var beside *matrix.Task
	first, err := a.Do(s.Ctx, key, func(ctx context.Context) error {
		_, err := b.TryDo(s.Peer, key, func(ctx context.Context) error { ran.Add(1); return context.Cause(ctx) })
		s.Check(ctx.Err() != nil || err != nil || s.Forced(), "B has run what A runs")
		if err != nil && !errors.Is(err, once.ErrRunning) {
			return s.Other(err)
		}
		beside = s.Go(func() error {
			_, err := b.Do(s.Peer, key, func(ctx context.Context) error {
				ran.Add(1)
				return context.Cause(ctx)
			})
			return err
		})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
		s.Middle()
		ran.Add(1)
		return context.Cause(ctx)
	})
	if beside != nil {
		s.RequireOther(beside.Wait())
	}
	s.Require(err)
	s.Check(first.Key == key, "the record is %v", first)
	s.Check(ran.Load() == 1 || s.Forced() || !first.Ran, "the job has run %d times", ran.Load())
	again, err := a.Do(s.Ctx, key, func(context.Context) error { return errors.New("it is recorded") })
	if s.Forced() && err != nil {
		return nil // the record was deleted or overwritten
	}
	s.Require(err)
	s.Check(!again.Ran, "a recorded job has run again")
	s.Require(s.Expire())
	failed := errors.New("failed")
	if _, err := a.Do(s.Ctx, key+"2", func(context.Context) error { return failed }); !errors.Is(err, failed) {
		return err
	}
	second, err := b.Do(s.Peer, key+"2", func(ctx context.Context) error { return context.Cause(ctx) })
	s.RequireOther(err)
	s.Check(second.Ran, "a failed job is recorded")
	return nil
}

// schedules has A and B follow one schedule. Each firing runs once.
func schedules(s *matrix.Scene) error {
	a, b := both(s, func(client *framework.Client) (*once.Once, error) { return once.New(client, s.Path) })
	var ran atomic.Int32
	work := func(ctx context.Context, _ time.Time) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
		ran.Add(1)
		return nil
	}
	peer, stop := context.WithCancel(s.Peer)
	mine, stopMine := context.WithCancel(s.Ctx)
	defer stopMine()
	beside := s.Go(func() error { return b.Run(peer, once.Every(time.Minute), work) })
	defer func() {
		stop()
		_ = beside.Wait() // it was stopped
	}()
	own := s.Go(func() error { return a.Run(mine, once.Every(time.Minute), work) })
	s.Sleep(90 * time.Second)
	s.Middle()
	began := ran.Load()
	_ = s.Eventually(s.Ctx, "two firings", func() bool { return ran.Load() >= began+2 || beside.Ended() || own.Ended() })
	s.Require(context.Cause(s.Ctx))
	if beside.Ended() {
		return s.Other(fmt.Errorf("Run has returned: %w", beside.Wait()))
	}
	if own.Ended() {
		return own.Wait()
	}
	stopMine()
	if err := own.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	s.Require(context.Cause(s.Ctx))
	s.Check(ran.Load() <= began+2 || s.Forced(), "the job has run %d times", ran.Load())
	return nil
}
