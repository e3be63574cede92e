package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/once"
)

// schedule runs during a term of leadership: one instance at a time writes reports.
func (s *Service) schedule(ctx context.Context, term *leader.Term) error {
	s.log.Info("scheduling")
	defer s.log.Info("stopped scheduling")
	for {
		switch err := s.report(ctx, term); {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, zk.ErrNoNode): // the guard: another instance may lead by now
			return nil
		case err != nil:
			s.log.Warn("report failed, retrying", "error", err)
		}
		select {
		case <-time.After(s.Settings().ReportEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// Report is the JSON at /shop/report.
type Report struct {
	By string `json:"by"`
	N  int    `json:"n"` // number of reports so far
}

// report writes the next report in one transaction with a check of the leader's node, so that a
// former leader cannot.
func (s *Service) report(ctx context.Context, term *leader.Term) error {
	if err := s.ensure(ctx, reportPath, []byte("{}")); err != nil {
		return err
	}
	data, stat, err := s.client.Get(ctx, reportPath)
	if err != nil {
		return err
	}
	var last Report
	if err := json.Unmarshal(data, &last); err != nil {
		return fmt.Errorf("%s: %w", reportPath, err)
	}
	text, err := json.Marshal(Report{s.cfg.ID, last.N + 1})
	if err != nil {
		return err
	}
	_, err = s.client.Multi(ctx, term.Guard(), framework.SetOp(reportPath, text, framework.IfVersion(stat.Version)))
	if errors.Is(err, zk.ErrBadVersion) { // no other instance writes: the reply to an earlier attempt was lost
		return nil
	}
	return err
}

// ensure creates a node unless it exists.
func (s *Service) ensure(ctx context.Context, path string, data []byte) error {
	_, err := s.client.Create(ctx, path, data, framework.PersistentParents(), framework.IfMissing())
	return err
}

// Reasons why the nightly job does not run.
var (
	errRunning = errors.New("the nightly job is running in another instance")
	errDone    = errors.New("the nightly job has already run today")
)

// Nightly runs job unless it has succeeded today in any instance. It returns errRunning if another
// instance runs it, and errDone if it has succeeded today. job must return when its context is
// cancelled.
//
// Without a server, Nightly fails after a quarter of the session timeout.
func (s *Service) Nightly(ctx context.Context, job func(ctx context.Context) error) error {
	patient, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	limit := time.AfterFunc(s.cfg.Session/4, func() { giveUp(context.DeadlineExceeded) })
	defer limit.Stop()
	today := s.cfg.Now().UTC().Format(time.DateOnly)
	done, err := s.nightly.TryDo(patient, today, func(ctx context.Context) error {
		limit.Stop() // it limits the wait for a server, not the job
		return job(ctx)
	})
	switch {
	case errors.Is(err, once.ErrRunning):
		return errRunning
	case err == nil && !done.Ran:
		return errDone
	}
	return err
}

func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	// An outage of ZooKeeper must not stop all instances at once: they serve with the last settings
	// and lists. The metrics report it.
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case s.stops.Load():
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
		case !s.client.State().IsConnected():
			fmt.Fprintln(w, "ready, without ZooKeeper")
		default:
			fmt.Fprintln(w, "ready")
		}
	})
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		amount, err := s.ask(r.Context(), r.PathValue("id"))
		if err != nil {
			s.log.Warn("order", "error", err)
			http.Error(w, "stock is unavailable", http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, "order %s: %s in stock, in %s\n", r.PathValue("id"), amount, s.Settings().Currency)
	})
	mux.HandleFunc("POST /nightly", func(w http.ResponseWriter, r *http.Request) {
		err := s.Nightly(r.Context(), func(ctx context.Context) error {
			s.log.Info("nightly job")
			return nil
		})
		switch {
		case errors.Is(err, errRunning), errors.Is(err, errDone):
			http.Error(w, err.Error(), http.StatusConflict)
		case err != nil:
			s.log.Warn("nightly", "error", err)
			http.Error(w, "the nightly job failed", http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "done")
		}
	})
	return mux
}

// ask sends a request to an instance of stock, and to another one if the first does not answer.
func (s *Service) ask(ctx context.Context, id string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://stock/items/"+url.PathEscape(id), nil)
	if err != nil {
		return "", err
	}
	answer, err := s.stock.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("stock: unexpected status %s", answer.Status)
	}
	return string(text), err
}
