package promobserve_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/observe/promobserve"
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

	registry := prometheus.NewRegistry() // in a service: prometheus.DefaultRegisterer
	observed, err := promobserve.New(registry,
		// /billing/invoices/4711 and all the others are "invoices".
		promobserve.WithLockLabel(func(path, _ string) string { return strings.Split(path, "/")[2] }))
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

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, path := range []string{"/billing/invoices/4711", "/billing/invoices/4712"} {
		m, err := mutex.New(client, path)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := m.Do(ctx, func(context.Context) error { return nil }); err != nil {
			fmt.Println(err)
			return
		}
	}

	families, err := registry.Gather() // in a service: promhttp.Handler()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		if f.GetName() == "curator_lock_wait_duration_seconds" {
			m := f.GetMetric()[0]
			fmt.Println(f.GetName(), m.GetLabel()[0].GetValue(), m.GetLabel()[1].GetValue(), m.GetHistogram().GetSampleCount())
		}
	}
	// Output: curator_lock_wait_duration_seconds mutex invoices 2
}
