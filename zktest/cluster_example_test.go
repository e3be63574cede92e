package zktest_test

import (
	"fmt"

	"github.com/gocurator/curator/framework"
)

// Does a service find the new servers when an ensemble moves to other machines? It does with
// ensemble tracking.
func ExampleCluster_Add() {
	cluster, client, end := newCluster(framework.WithEnsembleTracking())
	defer end()
	for _, old := range cluster.Members() {
		_, err := cluster.Add(ctx)
		must(err)
		must(cluster.Remove(ctx, old))
		_, err = client.Create(ctx, "/moved", nil, framework.As(framework.PersistentSequential))
		fmt.Println("error:", err)
	}
	// Output:
	// error: <nil>
	// error: <nil>
	// error: <nil>
}
