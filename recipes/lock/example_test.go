package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
)

// perTenant lets one of each tenant hold at a time. It puts the tenant into the nodes' names, and leaves the rest
// to Standard.
type perTenant struct {
	lock.Standard
	tenant string
}

func (d perTenant) Create(ctx context.Context, client *framework.Client, base, name string, data []byte) (string, error) {
	return d.Standard.Create(ctx, client, base, d.tenant+name, data)
}

func (d perTenant) Decide(children []string, own string, _ int) (lock.Decision, error) {
	ahead := d.same(children[:slices.Index(children, own)])
	if len(ahead) == 0 {
		return lock.Decision{Held: true}, nil
	}
	return lock.Decision{Watch: ahead[len(ahead)-1:]}, nil
}

// WouldWait goes with Decide: Standard's would have TryAcquire wait for other tenants.
func (d perTenant) WouldWait(children []string, _ int) bool { return len(d.same(children)) > 0 }

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
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		for _, tenant := range []string{"acme", "globex", "acme"} {
			queue, err := lock.New(client, "/jobs", ".job-", perTenant{tenant: tenant})
			if err != nil {
				return err
			}
			patient, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			hold, err := queue.Acquire(patient)
			if err != nil {
				fmt.Println(tenant, "waits in vain")
				continue
			}
			defer hold.Release()
			fmt.Println(tenant, "holds")
		}
		queue, err := lock.New(client, "/jobs", ".job-", perTenant{tenant: "initech"})
		if err != nil {
			return err
		}
		hold, err := queue.TryAcquire(ctx)
		if err != nil {
			return err
		}
		fmt.Println("initech holds")
		return hold.Release()
	})
	// Output:
	// acme holds
	// globex holds
	// acme waits in vain
	// initech holds
}

func ExampleQueue() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		// At most two at a time, with nodes that are called job-0000000000 and so on.
		queue, err := lock.New(client, "/jobs", "job-", lock.Standard{}, lock.WithMaxLeases(2))
		if err != nil {
			return err
		}
		for range 2 {
			hold, err := queue.Acquire(ctx)
			if err != nil {
				return err
			}
			defer hold.Release()
		}
		_, err = queue.TryAcquire(ctx)
		fmt.Println(err)
		return nil
	})
	// Output:
	// try /jobs: held by another
}

func ExampleQueue_Participants() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		queue, err := lock.New(client, "/jobs", "job-", nil, lock.WithData([]byte("the nightly job")))
		if err != nil {
			return err
		}
		return queue.Do(ctx, func(ctx context.Context) error {
			all, err := queue.Participants(ctx)
			for _, p := range all {
				fmt.Printf("%s, holds: %v\n", p.Data, p.Holds)
			}
			return err
		})
	})
	// Output:
	// the nightly job, holds: true
}

// What is done while holding is done with the hold's context, so that a loss cannot be overlooked.
func ExampleHold_Context() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		queue, err := lock.New(client, "/jobs", "job-", nil)
		if err != nil {
			return err
		}
		hold, err := queue.Acquire(ctx)
		if err != nil {
			return err
		}
		defer hold.Release()
		if err := client.Delete(ctx, hold.Path(), -1); err != nil { // an operator does that
			return err
		}
		<-hold.Context().Done()
		fmt.Println(context.Cause(hold.Context()))
		return nil
	})
	// Output:
	// lock node deleted by another
}

// A write that succeeds only while the lock's node is there.
func ExampleHold_Guard() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		if _, err := client.Create(ctx, "/balance", []byte("100")); err != nil {
			return err
		}
		queue, err := lock.New(client, "/jobs", "job-", nil)
		if err != nil {
			return err
		}
		hold, err := queue.Acquire(ctx)
		if err != nil {
			return err
		}
		_, err = client.Multi(ctx, hold.Guard(), &zk.SetDataRequest{Path: "/balance", Data: []byte("90"), Version: -1})
		fmt.Println("while holding:", err)
		if err := hold.Release(); err != nil {
			return err
		}
		_, err = client.Multi(ctx, hold.Guard(), &zk.SetDataRequest{Path: "/balance", Data: []byte("80"), Version: -1})
		fmt.Println("too late:", errors.Is(err, zk.ErrNoNode))
		balance, _, err := client.Get(ctx, "/balance")
		fmt.Println("balance:", string(balance))
		return err
	})
	// Output:
	// while holding: <nil>
	// too late: true
	// balance: 90
}

// A number for whatever must refuse a holder that is late.
func ExampleHold_FencingToken() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		queue, err := lock.New(client, "/jobs", "job-", nil)
		if err != nil {
			return err
		}
		var last int64
		for range 3 {
			hold, err := queue.Acquire(ctx)
			if err != nil {
				return err
			}
			token, err := hold.FencingToken(ctx)
			if err != nil {
				return err
			}
			fmt.Println("higher than the last one:", token > last)
			last = token
			if err := hold.Release(); err != nil {
				return err
			}
		}
		return nil
	})
	// Output:
	// higher than the last one: true
	// higher than the last one: true
	// higher than the last one: true
}
