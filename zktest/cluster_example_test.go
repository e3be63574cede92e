package zktest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// Does a service survive the loss of the leader? Here it is one that holds a lock. In a test, use
// zktest.NewCluster(t, 3), which ends with the test.
func ExampleStartCluster() {
	cluster, err := zktest.StartCluster(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()

	if err := survive(cluster); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the client works again
	// the lock is still held: true
}

func survive(cluster *zktest.Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// The service is given the addresses, and knows nothing of it all. It keeps its locks as long as its
	// session lives.
	client, err := framework.New(cluster.Servers(), framework.WithErrorPolicy(connstate.Session))
	if err != nil {
		return err
	}
	defer client.Close()
	m, err := mutex.New(client, "/reports/nightly")
	if err != nil {
		return err
	}
	hold, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()

	// The leader's process ends. The others cut all connections and elect another leader.
	if _, err := cluster.StopLeader(); err != nil {
		return err
	}
	if _, err := cluster.WaitLeader(ctx); err != nil {
		return err
	}
	if _, err := client.Create(ctx, "/reports/done", nil); err != nil {
		return err
	}
	fmt.Println("the client works again")
	fmt.Println("the lock is still held:", hold.Context().Err() == nil)
	return nil
}

// Does a service find the new servers when an ensemble moves to other machines? It does with ensemble tracking.
func ExampleCluster_Add() {
	cluster, err := zktest.StartCluster(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	client, err := framework.New(cluster.Servers(), framework.WithEnsembleTracking())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, old := range cluster.Members() {
		if _, err := cluster.Add(ctx); err != nil {
			fmt.Println(err)
			return
		}
		if err := cluster.Remove(ctx, old); err != nil {
			fmt.Println(err)
			return
		}
		_, err := client.Create(ctx, "/moved", nil, framework.As(framework.PersistentSequential))
		fmt.Println("error:", err)
	}
	// Output:
	// error: <nil>
	// error: <nil>
	// error: <nil>
}
