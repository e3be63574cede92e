// Service is a complete service on ZooKeeper: an HTTP API in several instances that find and call
// each other, with shared settings, one scheduler, and a nightly job that runs once.
//
//	go run . -servers zk1:2181,zk2:2181,zk3:2181/app -listen 127.0.0.1:8080 -id orders-1
//
//	GET  /orders/7   asks the service stock for it, through a balanced client
//	GET  /ready      200 until the instance shuts down, even without ZooKeeper
//	GET  /metrics    for Prometheus
//	POST /nightly    runs the nightly job, unless it runs somewhere or is done for today
//
// Each instance follows the settings at /shop/settings, registers itself below /services, and takes
// part in the election at /shop/scheduler. SIGTERM stops it in order: it unregisters, finishes its
// requests, and resigns.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	cfg := Config{}
	host, _ := os.Hostname()
	flag.StringVar(&cfg.Servers, "servers", "127.0.0.1:2181", "`host:port,...` of the ensemble, with a /chroot or without")
	flag.StringVar(&cfg.Listen, "listen", "127.0.0.1:8080", "`address` of the HTTP server; other instances must reach it there")
	flag.StringVar(&cfg.ID, "id", fmt.Sprintf("%s-%d", host, os.Getpid()), "`id` of the instance")
	flag.DurationVar(&cfg.Session, "session", 10*time.Second, "session timeout: how long a crash goes unnoticed")
	flag.DurationVar(&cfg.Drain, "drain", 2*time.Second, "how long the instance answers after it is unregistered")
	patience := flag.Duration("shutdown", 20*time.Second, "how long an orderly shutdown may take")
	flag.Parse()
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("instance", cfg.ID)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, cfg, *patience)
	stop()
	if err != nil {
		cfg.Logger.Error("stopped", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then shuts down within patience.
func run(ctx context.Context, cfg Config, patience time.Duration) error {
	s, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	var failed error
	select {
	case <-ctx.Done():
	case <-s.Failed():
		failed = s.Err()
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := s.Shutdown(stopping); failed == nil {
		failed = err
	}
	return failed
}
