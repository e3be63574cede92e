// Demo is a service that both adapters watch, on a bad day: an in-process server that hangs up, ends sessions and
// is slow now and then. It runs Prometheus beside it with the rules of docs/alerts.yml, has it scrape, asks it what each panel
// of the dashboards shows, and draws that.
//
//	go run . -for 3m -out ../../docs/dashboard.svg
//
// It needs Docker, and the image that scripts/prometheus-image.sh builds. With -listen it only is the service:
// /metrics has what observe/promobserve exports, /otel what observe/otelobserve does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	listen := flag.String("listen", "", "serve metrics on this `address` until interrupted, and nothing else")
	duration := flag.Duration("for", 3*time.Minute, "how long the day is")
	docs := flag.String("docs", "../../docs", "where the dashboards and the alerts are")
	out := flag.String("out", "dashboard.svg", "the picture")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *listen != "" {
		err = serve(ctx, *listen, func(string) error { <-ctx.Done(); return nil })
	} else {
		err = serve(ctx, "127.0.0.1:0", func(address string) error {
			return picture(ctx, address, *duration, *docs, *out)
		})
	}
	if err != nil {
		stop()
		log.Fatal(err)
	}
}

// serve is the service, while f runs.
func serve(ctx context.Context, address string, f func(address string) error) error {
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
	err = f(listener.Addr().String())
	web.Close()
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// picture lets a day pass and draws it.
func picture(ctx context.Context, address string, duration time.Duration, docs, out string) error {
	panels, err := readDashboards(docs)
	if err != nil {
		return err
	}
	p, err := startPrometheus(ctx, address, filepath.Join(docs, alerts))
	if err != nil {
		return err
	}
	defer p.stop()
	began := time.Now()
	select {
	case <-time.After(duration):
	case <-ctx.Done():
		return ctx.Err()
	}
	drawing := drawing{began: began, ended: time.Now()}
	for _, panel := range panels {
		for _, job := range []string{"otel", "prometheus"} { // what the second one says is drawn
			if err := panel.fill(ctx, p, job, drawing.began, drawing.ended); err != nil {
				return fmt.Errorf("%s, %s: %w", panel.Title, job, err)
			}
			if len(panel.lines) == 0 && !panel.exceptional() {
				return fmt.Errorf("%s: nothing from %s", panel.Title, job)
			}
		}
		drawing.panels = append(drawing.panels, panel)
	}
	return os.WriteFile(out, []byte(drawing.svg()), 0o644)
}
