package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/httpclient"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// A client calls the instances of the service stock in turn.
func Example() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	d, err := discovery.New[string](client, "/services")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	for _, id := range []string{"a", "b"} {
		instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s from %s", r.URL.Path, id)
		}))
		defer instance.Close()
		port := instance.Listener.Addr().(*net.TCPAddr).Port
		reg, err := d.Register(ctx, discovery.Instance[string]{Name: "stock", ID: id, Address: "127.0.0.1", Port: port})
		if err != nil {
			log.Fatal(err)
		}
		defer reg.Close()
	}

	watch, err := d.Watch(ctx, "stock")
	if err != nil {
		log.Fatal(err)
	}
	defer watch.Close()
	transport, err := httpclient.New(watch, discovery.RoundRobin)
	if err != nil {
		log.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	stock := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	answers := map[string]bool{}
	for range 2 {
		answer, err := stock.Get("http://stock/items/7")
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			log.Fatal(err)
		}
		answers[string(text)] = true
	}
	fmt.Println(answers)
	// Output: map[/items/7 from a:true /items/7 from b:true]
}
