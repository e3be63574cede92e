package shared_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/zktest"
)

// ids gives out numbers that no other process gives out. It is for one goroutine.
type ids struct {
	next *shared.Value[int64]
	free []int64 // the first number, and the one after the last
}

// take reserves a hundred numbers at a time. Numbers that remain when the process ends are not
// used.
func (i *ids) take(ctx context.Context) (int64, error) {
	if i.free == nil || i.free[0] == i.free[1] {
		first, err := shared.Reserve(ctx, i.next, 100)
		if err != nil {
			return 0, err
		}
		i.free = []int64{first, first + 100}
	}
	i.free[0]++
	return i.free[0] - 1, nil
}

// A service that gives out ids.
func ExampleReserve() {
	client, done := newClient()
	defer done()
	ctx := context.Background()

	next, err := shared.Int64(client, "/orders/next")
	if err != nil {
		log.Fatal(err)
	}
	one, other := ids{next: next}, ids{next: next} // two processes
	for _, process := range []*ids{&one, &one, &other, &one} {
		id, err := process.take(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id)
	}
	// Output:
	// 0
	// 1
	// 100
	// 2
}

// A counter that all processes share.
func ExampleInt64() {
	client, done := newClient()
	defer done()
	ctx := context.Background()

	stock, err := shared.Int64(client, "/stock")
	if err != nil {
		log.Fatal(err)
	}
	if err := stock.Set(ctx, 2); err != nil {
		log.Fatal(err)
	}
	errSoldOut := errors.New("sold out")
	for range 3 {
		left, err := stock.Update(ctx, func(n int64) (int64, error) {
			if n == 0 {
				return 0, errSoldOut // nothing is written
			}
			return n - 1, nil
		})
		if errors.Is(err, errSoldOut) {
			fmt.Println("sold out")
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(left)
	}
	// Output:
	// 1
	// 0
	// sold out
}

func ExampleValue_Update() {
	client, done := newClient()
	defer done()

	visits, err := shared.Int64(client, "/visits", shared.WithMutex("/visits-mutex"))
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		n, err := visits.Update(context.Background(), func(n int64) (int64, error) { return n + 1, nil })
		if err != nil {
			log.Fatal(err) // retry.Unknown(err): it may have been counted, at most once
		}
		fmt.Println(n)
	}
	// Output:
	// 1
	// 2
}

// A service reads its configuration into a struct, and follows it. A missing node is the zero
// value. Data that are not valid are reported, and the service keeps its last configuration.
func ExampleJSON() {
	type limits struct{ Rate int }
	client, done := newClient()
	defer done()
	ctx := context.Background()

	value, err := shared.JSON[limits](client, "/config/limits")
	if err != nil {
		log.Fatal(err)
	}
	operator := []string{`{"Rate": 10}`, `{"Rate": fast}`, `{"Rate": 20}`}
	for l, err := range value.Observe(ctx) {
		switch {
		case errors.Is(err, shared.ErrBadValue):
			fmt.Println("kept the last limits")
		case err != nil:
			log.Fatal(err) // ctx is done, or the client is closed
		default:
			fmt.Println(l.Rate)
		}
		if len(operator) == 0 {
			break
		}
		if _, err := client.Create(ctx, "/config/limits", []byte(operator[0]), framework.PersistentParents(), framework.OrSet()); err != nil {
			log.Fatal(err)
		}
		operator = operator[1:]
	}
	// Output:
	// 0
	// 10
	// kept the last limits
	// 20
}

// newClient returns a client of a server in this process.
func newClient() (client *framework.Client, done func()) {
	server, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err = framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { client.Close(); server.Close() }
}
