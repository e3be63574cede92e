package control_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
	"github.com/gocurator/curator/zktest/control"
)

// A test in another language injects a fault by HTTP: the reply to a request is lost, and the
// client repeats the request.
func Example() {
	server, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	port := httptest.NewServer(control.Handler(server))
	defer port.Close()

	answer, err := http.Post(port.URL+"/inject", "application/json", strings.NewReader(`{"fault": "lose reply", "ops": ["exists"], "path": "/orders"}`))
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)

	attempts := make(chan int, 1)
	client, err := framework.New(server.Servers(), framework.WithObserver(framework.Observer{
		Operation: func(_ context.Context, e framework.OperationEvent) {
			if e.Op == "exists" {
				attempts <- e.Attempts
			}
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, _, err = client.Exists(context.Background(), "/orders")
	fmt.Println(<-attempts, "attempts, error:", err)
	// Output:
	// 200 OK
	// 2 attempts, error: <nil>
}
