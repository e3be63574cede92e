package rwlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/rwlock"
)

func Example() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		catalogue, err := rwlock.New(client, "/shop/catalogue")
		if err != nil {
			return err
		}
		reading, err := catalogue.Read().Acquire(ctx)
		if err != nil {
			return err
		}
		defer reading.Release()
		err = catalogue.Read().Do(ctx, func(context.Context) error {
			fmt.Println("another reader is let in")
			return nil
		})
		if err != nil {
			return err
		}
		if _, err := catalogue.Write().TryAcquire(ctx); errors.Is(err, lock.ErrNotAcquired) {
			fmt.Println("a writer is not")
		}
		if _, err := catalogue.Write().Acquire(reading.Context()); errors.Is(err, rwlock.ErrUpgrade) {
			fmt.Println("nor does a reader become one")
		}
		return nil
	})
	// Output:
	// another reader is let in
	// a writer is not
	// nor does a reader become one
}

// A writer goes on as a reader, and nobody writes in between.
func Example_downgrade() {
	testbed.Example(func(ctx context.Context, client *framework.Client) error {
		catalogue, err := rwlock.New(client, "/shop/catalogue")
		if err != nil {
			return err
		}
		writing, err := catalogue.Write().Acquire(ctx)
		if err != nil {
			return err
		}
		reading, err := catalogue.Read().Acquire(writing.Context())
		if err != nil {
			return err
		}
		if err := writing.Release(); err != nil {
			return err
		}
		fmt.Println("still reading:", reading.Err() == nil)
		_, err = catalogue.Write().TryAcquire(ctx)
		fmt.Println("others may write:", !errors.Is(err, lock.ErrNotAcquired))
		return reading.Release()
	})
	// Output:
	// still reading: true
	// others may write: false
}
