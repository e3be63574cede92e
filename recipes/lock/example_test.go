package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// perTenant lets one of each tenant hold at a time. It puts the tenant into the nodes' names, and
// leaves the rest to Standard.
type perTenant struct {
	lock.Standard
	tenant string
}

func (d perTenant) Create(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
	n.Name = d.tenant + n.Name
	return d.Standard.Create(ctx, client, n)
}

func (d perTenant) Decide(l lock.Line) (lock.Decision, error) {
	ahead := d.same(l.Children[:slices.Index(l.Children, l.Own)])
	if len(ahead) == 0 {
		return lock.Decision{Held: true}, nil
	}
	return lock.Decision{Watch: ahead[len(ahead)-1:]}, nil
}

// same are the nodes of the same tenant.
func (d perTenant) same(children []string) (same []string) {
	for _, child := range children {
		if name, _ := framework.Unprotected(child); strings.HasPrefix(name, d.tenant+".job-") {
			same = append(same, child)
		}
	}
	return same
}

// A recipe of one's own is a name for the nodes and a driver that says who holds.
func ExampleDriver() {
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

	for _, tenant := range []string{"acme", "globex", "acme"} {
		queue, err := lock.New(client, "/jobs", ".job-", perTenant{tenant: tenant})
		if err != nil {
			log.Fatal(err)
		}
		waiting, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		hold, err := queue.Acquire(waiting)
		if err != nil {
			fmt.Println(tenant, "waits in vain")
			continue
		}
		defer hold.Release()
		fmt.Println(tenant, "holds")
	}
	queue, err := lock.New(client, "/jobs", ".job-", perTenant{tenant: "initech"})
	if err != nil {
		log.Fatal(err)
	}
	hold, err := queue.TryAcquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("initech holds")
	if err := hold.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// acme holds
	// globex holds
	// acme waits in vain
	// initech holds
}

func ExampleQueue() {
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

	// At most two at a time, with nodes that are called job-0000000000 and so on.
	queue, err := lock.New(client, "/jobs", "job-", lock.Standard{}, lock.WithMaxLeases(2))
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		hold, err := queue.Acquire(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer hold.Release()
	}
	_, err = queue.TryAcquire(ctx)
	fmt.Println(err)
	// Output:
	// try /jobs: not free
}

func ExampleQueue_Participants() {
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

	queue, err := lock.New(client, "/jobs", "job-", nil, lock.WithData([]byte("the nightly job")))
	if err != nil {
		log.Fatal(err)
	}
	if err := queue.Do(ctx, func(ctx context.Context) error {
		all, err := queue.Participants(ctx)
		for _, p := range all {
			fmt.Printf("%s, holds: %v\n", p.Data, p.Holds)
		}
		return err
	}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the nightly job, holds: true
}

// Work under the lock uses the hold's context, so that a loss cannot be overlooked.
func ExampleHold_Context() {
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

	queue, err := lock.New(client, "/jobs", "job-", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := queue.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release()
	if err := client.Delete(ctx, hold.Path()); err != nil { // an operator does that
		log.Fatal(err)
	}
	<-hold.Context().Done()
	fmt.Println(context.Cause(hold.Context()))
	// Output:
	// lock node deleted by another
}

// Operators see in the nodes of a lock for which job it is held.
func ExampleWithDataFunc() {
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

	type job struct{} // the key of a context's value
	queue, err := lock.New(client, "/jobs", "job-", nil, lock.WithDataFunc(func(ctx context.Context) []byte {
		name, _ := ctx.Value(job{}).(string)
		return []byte(name)
	}))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.WithValue(context.Background(), job{}, "nightly report")
	err = queue.Do(ctx, func(ctx context.Context) error {
		all, err := queue.Participants(ctx)
		if err == nil {
			fmt.Printf("%s", all[0].Data)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nightly report
}

// A write that succeeds only while the lock's node exists. The error tells a lost lock from a
// missing node of the caller's.
func ExampleHold_Multi() {
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

	if _, err := client.Create(ctx, "/balance", []byte("100")); err != nil {
		log.Fatal(err)
	}
	queue, err := lock.New(client, "/jobs", "job-", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := queue.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = hold.Multi(ctx, framework.SetOp("/balance", []byte("90")))
	fmt.Println("while holding:", err)
	_, err = hold.Multi(ctx, framework.SetOp("/nobody", nil))
	fmt.Println("lost:", errors.Is(err, framework.ErrLost), "missing:", errors.Is(err, zk.ErrNoNode))
	if err := hold.Release(); err != nil {
		log.Fatal(err)
	}
	_, err = hold.Multi(ctx, framework.SetOp("/balance", []byte("80")))
	fmt.Println("lost:", errors.Is(err, framework.ErrLost), "missing:", errors.Is(err, zk.ErrNoNode))
	// Output:
	// while holding: <nil>
	// lost: false missing: true
	// lost: true missing: false
}

// A write that succeeds only while the lock's node exists.
func ExampleHold_Guard() {
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

	if _, err := client.Create(ctx, "/balance", []byte("100")); err != nil {
		log.Fatal(err)
	}
	queue, err := lock.New(client, "/jobs", "job-", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := queue.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Multi(ctx, hold.Guard(), framework.SetOp("/balance", []byte("90")))
	fmt.Println("while holding:", err)
	if err := hold.Release(); err != nil {
		log.Fatal(err)
	}
	_, err = client.Multi(ctx, hold.Guard(), framework.SetOp("/balance", []byte("80")))
	fmt.Println("too late:", errors.Is(err, zk.ErrNoNode))
	balance, _, err := client.Get(ctx, "/balance")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance:", string(balance))
	// Output:
	// while holding: <nil>
	// too late: true
	// balance: 90
}

// A number for whatever must refuse a holder that is late.
func ExampleHold_FencingToken() {
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

	queue, err := lock.New(client, "/jobs", "job-", nil)
	if err != nil {
		log.Fatal(err)
	}
	var last int64
	for range 3 {
		hold, err := queue.Acquire(ctx)
		if err != nil {
			log.Fatal(err)
		}
		token, err := hold.FencingToken(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("higher than the last one:", token > last)
		last = token
		if err := hold.Release(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// higher than the last one: true
	// higher than the last one: true
	// higher than the last one: true
}

// A function that acquires a lock calls another one that acquires it as well, as a thread may in
// Java. Without the option the inner Do returns lock.ErrHeld.
func ExampleWithReentry() {
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

	for _, opts := range [][]lock.Option{nil, {lock.WithReentry()}} {
		accounts, err := lock.New(client, "/accounts", "lock-", nil, opts...)
		if err != nil {
			log.Fatal(err)
		}
		add := func(ctx context.Context) error {
			return accounts.Do(ctx, func(context.Context) error { fmt.Println("added"); return nil })
		}
		err = accounts.Do(ctx, func(ctx context.Context) error { return add(ctx) })
		fmt.Println("held already:", errors.Is(err, lock.ErrHeld))
	}
	// Output:
	// held already: true
	// added
	// held already: false
}

// The result is written in the same transaction as the release: others see both, or neither.
func ExampleHold_ReleaseWith() {
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

	queue, err := lock.New(client, "/jobs", "job-", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := queue.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = hold.ReleaseWith(ctx, framework.CreateOp("/result", []byte("42")))
	if err != nil {
		log.Fatal(err)
	}
	data, _, err := client.Get(ctx, "/result")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data), "released:", errors.Is(hold.Err(), lock.ErrReleased))
	// Output:
	// 42 released: true
}

// A printer checks neither a guard nor a token. A host that loses its session may still print for a
// moment, so the next one begins later.
func ExampleWithLockDelay() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	hosts := make([]*mutex.Mutex, 2)
	for i := range hosts {
		client, err := framework.New(server.Servers())
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		if hosts[i], err = mutex.New(client, "/printer", lock.WithLockDelay(300*time.Millisecond)); err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	hold, err := hosts[0].Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	died := time.Now()
	if err := server.ExpireSession(hold.Session().ID()); err != nil { // the first host dies
		log.Fatal(err)
	}
	err = hosts[1].Do(ctx, func(context.Context) error {
		fmt.Println("the next host prints after the delay:", time.Since(died) >= 300*time.Millisecond)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: the next host prints after the delay: true
}

func ExampleWithObserver() {
	server, err := zktest.Start() // instead of a real ensemble
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	client, err := framework.New([]string{server.Addr()}, lock.WithObserver(lock.Observer{
		Joined: func(_ context.Context, e lock.JoinedEvent) {
			fmt.Println("joined", e.Path, "behind", e.Ahead)
		},
		Acquired: func(ctx context.Context, e lock.AcquiredEvent) context.Context {
			fmt.Println("acquired", e.Path, "in time:", e.Waited < 10*time.Second)
			return ctx
		},
		Ended: func(_ context.Context, e lock.EndedEvent) {
			fmt.Println("ended", e.Path+":", e.Cause)
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m, err := mutex.New(client, "/invoices/lock")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = m.Do(ctx, func(context.Context) error {
		fmt.Println("working")
		return nil
	})
	fmt.Println(err)
	// Output:
	// joined /invoices/lock behind 0
	// acquired /invoices/lock in time: true
	// working
	// ended /invoices/lock: already released
	// <nil>
}
