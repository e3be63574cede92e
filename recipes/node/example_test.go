package node_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/node"
)

// A service registers itself. The registration is made again whatever happens, until it is closed.
func ExampleKeep() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		n, err := node.Keep(ctx, client, "/services/host-7", []byte("starting")) // returns when it is there
		if err != nil {
			return err
		}
		defer n.Close()
		if err := n.Set(ctx, []byte("ready")); err != nil {
			return err
		}
		data, _, err := client.Get(ctx, n.Path())
		fmt.Println(n.Path(), string(data))

		// Somebody deletes it.
		_, changed := n.Present()
		if err := client.Delete(ctx, n.Path(), -1); err != nil {
			return err
		}
		<-changed
		for there, changed := n.Present(); !there; there, changed = n.Present() {
			<-changed
		}
		fmt.Println("it is back")
		return err
	})
	// Output:
	// /services/host-7 ready
	// it is back
}

// Two workers find each other.
func ExampleJoin() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		one, err := node.Join(ctx, client, "/workers", "one", []byte("10.0.0.1"))
		if err != nil {
			return err
		}
		defer one.Close()
		two, err := node.Join(ctx, client, "/workers", "two", []byte("10.0.0.2"))
		if err != nil {
			return err
		}
		for members := range one.Changes(ctx) {
			if len(members) == 2 {
				fmt.Println(slices.Sorted(maps.Keys(members)), string(members["two"]))
				break
			}
		}
		if err := two.Close(); err != nil {
			return err
		}
		for members := range one.Changes(ctx) {
			if len(members) == 1 {
				fmt.Println(slices.Sorted(maps.Keys(members)))
				break
			}
		}
		return nil
	})
	// Output:
	// [one two] 10.0.0.2
	// [one]
}
