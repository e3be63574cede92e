package compressed_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/compressed"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/zktest"
)

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
	ctx := context.Background()

	report := []byte(strings.Repeat("all is well; ", 10_000))
	if _, err := compressed.Create(ctx, client, "/report", report); err != nil {
		log.Fatal(err)
	}
	data, stat, err := compressed.Get(ctx, client, "/report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(data), "bytes, and less than", 1000*(stat.DataLength/1000+1), "stored")
	// Output: 130000 bytes, and less than 1000 stored
}

// A cache with a decoder has the values of compressed nodes.
func ExampleDecode() {
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
	ctx := context.Background()
	if _, err := compressed.Create(ctx, client, "/report", []byte("all is well")); err != nil {
		log.Fatal(err)
	}

	c, err := cache.New(client, "/report")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	reports, err := cache.NewValues(c, func(n cache.Node) (string, error) {
		plain, err := compressed.Decode(n.Data)
		return string(plain), err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := reports.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	report, _ := reports.Get("/report")
	fmt.Println(report.Value)
	// Output: all is well
}

// A limit protects the memory of readers: a node of 2 KB can contain megabytes.
func ExampleCreate_limit() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers(), framework.WithMaxDecompressed(1<<20))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	_, err = compressed.Create(ctx, client, "/zeros", make([]byte, 2<<20))
	fmt.Println("too large to write:", errors.Is(err, framework.ErrTooLarge))
	// Output: too large to write: true
}
