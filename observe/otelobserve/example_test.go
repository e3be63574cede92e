package otelobserve_test

import (
	"context"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/observe/otelobserve"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

func Example() {
	server, err := zktest.Start() // instead of a real ensemble
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	// In a service the global providers are set up elsewhere, and New needs no options.
	recorder := tracetest.NewSpanRecorder()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	observed, err := otelobserve.New(otelobserve.WithTracerProvider(tracers))
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := framework.New([]string{server.Addr()}, observed)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	m, err := mutex.New(client, "/billing/invoices")
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = m.Do(ctx, func(ctx context.Context) error { // this ctx is in the span of the hold
		_, err := client.Create(ctx, "/billing/next", []byte("1"))
		return err
	})
	fmt.Println(err)

	names := map[string]string{} // by the id of the span
	for _, s := range recorder.Ended() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range recorder.Ended() {
		if attrs(s)["curator.path"] == "/billing/next" {
			fmt.Println(s.Name(), "below", names[s.Parent().SpanID().String()])
		}
	}
	// Output:
	// <nil>
	// zookeeper create below lock hold
}
