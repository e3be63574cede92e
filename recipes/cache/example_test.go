package cache_test

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/cache"
)

func Example() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		if _, err := client.Create(ctx, "/config/db", []byte("db1:5432"), framework.PersistentParents()); err != nil {
			return err
		}
		c, err := cache.New(client, "/config")
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Sync(ctx); err != nil { // everything is loaded
			return err
		}
		db, ok := c.Get("/config/db") // asks no server
		fmt.Printf("%s %t\n", db.Data, ok)
		for n := range c.Children("/config") {
			fmt.Println(n.Path)
		}
		return nil
	})
	// Output:
	// db1:5432 true
	// /config/db
}

func ExampleCache_Changes() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		c, err := cache.New(client, "/config/db", cache.Depth(0)) // one node
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := client.Create(ctx, "/config/db", []byte("db1:5432"), framework.PersistentParents()); err != nil {
			return err
		}
		for ch := range c.Changes(ctx) {
			switch ch.Kind {
			case cache.Created:
				fmt.Printf("created: %s\n", ch.New.Data)
				if _, err := client.Set(ctx, "/config/db", []byte("db2:5432"), -1); err != nil {
					return err
				}
			case cache.Changed:
				fmt.Printf("changed: %s, was %s\n", ch.New.Data, ch.Old.Data)
				return nil
			}
		}
		return c.Err()
	})
	// Output:
	// created: db1:5432
	// changed: db2:5432, was db1:5432
}

func ExampleNewValues() {
	type limits struct{ Rate int }
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		if _, err := client.Create(ctx, "/limits", []byte(`{"Rate": 100}`)); err != nil {
			return err
		}
		c, err := cache.New(client, "/limits", cache.Depth(0))
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Sync(ctx); err != nil {
			return err
		}
		values, err := cache.NewValues(c, cache.JSON[limits])
		if err != nil {
			return err
		}
		v, ok := values.Get("/limits")
		fmt.Println(v.Value.Rate, v.Err, ok)

		if _, err := client.Set(ctx, "/limits", []byte(`fast`), -1); err != nil {
			return err
		}
		if err := c.Sync(ctx); err != nil {
			return err
		}
		v, ok = values.Get("/limits") // the last good one, and what is wrong
		fmt.Println(v.Value.Rate, v.Err != nil, ok)
		return nil
	})
	// Output:
	// 100 <nil> true
	// 100 true true
}
