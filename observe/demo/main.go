// Demo is a service for trying out the dashboards and alerts in docs: five clients of an in-process
// server that at times closes connections, expires sessions, is slow and refuses connections.
//
//	go run . -listen 127.0.0.1:9090
//
// Prometheus finds the metrics of observe/promobserve at /metrics, and the ones of
// observe/otelobserve at /otel.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9090", "`address` to serve metrics on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *listen); err != nil {
		stop()
		log.Fatal(err)
	}
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, address string) error {
	s, err := startService(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: s.metrics()}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }() // ends with Close
	fmt.Printf("metrics at http://%s/metrics and /otel\n", listener.Addr())
	select {
	case <-ctx.Done():
		web.Close()
		<-served
		return nil
	case err := <-served:
		return fmt.Errorf("metrics: %w", err)
	}
}
