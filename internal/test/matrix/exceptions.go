package matrix

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/once"
)

// exception is a row of the table of exceptions.
type exception struct {
	// Story and Condition are patterns of path.Match, without slashes.
	Story, Condition string
	// Page contains the sentence that allows the exception.
	Page, Sentence string
	// Known is an open issue instead: its cells may do anything.
	Known string

	Allows  []error
	Any     bool     // the story may end with any error
	Silent  bool     // a wait until the deadline needs neither a reason nor a line
	Peers   bool     // calls of B may end with these errors
	Waits   bool     // the story may wait until its deadline
	Lingers bool     // nodes may remain until their sessions end
	Noisy   bool     // lines are logged
	Leaves  []string // suffixes of nodes that may remain

	indices []int
}

func (e exception) any() bool { return len(e.indices) > 0 }

func (e exception) because() string {
	if e.Known != "" {
		return "known: " + e.Known
	}
	return e.Page + ": " + e.Sentence
}

func (e exception) allows(err error) bool {
	return e.Any && err != nil || slices.ContainsFunc(e.Allows, func(target error) bool { return errors.Is(err, target) })
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, escaped(name))
	if err != nil {
		panic(err)
	}
	if ok {
		return true
	}
	ok, _ = path.Match(escaped(pattern), escaped(name))
	return ok
}

// excepted returns the union of the rows for a cell.
func excepted(story, condition string) (all exception) {
	for i, e := range exceptions {
		if !matches(e.Story, story) || !matches(e.Condition, condition) {
			continue
		}
		all.indices = append(all.indices, i)
		all.Allows = append(all.Allows, e.Allows...)
		all.Leaves = append(all.Leaves, e.Leaves...)
		all.Any, all.Silent = all.Any || e.Any, all.Silent || e.Silent
		all.Peers, all.Waits, all.Lingers, all.Noisy = all.Peers || e.Peers, all.Waits || e.Waits, all.Lingers || e.Lingers, all.Noisy || e.Noisy
		if e.Known != "" {
			all.Known = e.Known
		}
	}
	return all
}

// exceptions is the table: what cells may do beyond their condition, and the sentence that says so.
var exceptions = []exception{
	// Nodes that look like a contender's.
	{
		Story: "*mutex*", Condition: "a node of a mutex below *", Page: "docs/FROM-JAVA.md", Sentence: ownKind,
		Allows: notFree, Waits: true,
	},
	{Story: "*", Condition: "a persistent look-alike at *lock-0000000000", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true, Silent: true},
	{Story: "*", Condition: "a persistent look-alike at *latch-0000000000", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true, Silent: true},
	{Story: "*", Condition: "a persistent look-alike at *__0000000000", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true},
	{Story: "*", Condition: "a persistent look-alike at *lease-0000000000", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true},
	{Story: "queue", Condition: "a persistent look-alike at *", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true},
	{Story: "revocable", Condition: "a node of a mutex below the path", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true},
	{Story: "semaphore*", Condition: "a node of a mutex below /locks", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true},
	{Story: "semaphore*", Condition: "a node of a lease below /leases", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true},
	{Story: "multilock", Condition: "a node of a mutex below *", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true},
	{Story: "multilock", Condition: "a node of a lease below /s/leases", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true},
	{Story: "* lock", Condition: "a node of a writer below the path", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true},
	{Story: "*job", Condition: "a node of a mutex below the path", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true, Silent: true},
	{
		Story: "job", Condition: "a persistent look-alike at /once", Page: "recipes/once/doc.go",
		Sentence: "Data of another program are an error and are never overwritten.", Allows: []error{once.ErrBadValue},
	},
	{Story: "lock of zkconn", Condition: "a node of a mutex below the path", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Allows: notFree, Waits: true, Silent: true},
	{Story: "election*", Condition: "a node of an election below the path", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Waits: true, Silent: true},
	{Story: "election with a selector", Condition: "a node of a mutex below the path", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Waits: true, Silent: true},
	{Story: "shards", Condition: "a node of an election below *", Page: "docs/FROM-JAVA.md", Sentence: ownKind, Waits: true, Silent: true},
	{
		Story: "kept node that fails", Condition: "a persistent look-alike at /n", Page: "recipes/node/node.go",
		Sentence: "[ErrTaken] if the path is taken and [Fail] is given", Allows: []error{node.ErrTaken},
	},
	{
		Story: "kept node", Condition: "a persistent look-alike at /n", Page: "recipes/node/node.go",
		Sentence: "Wait waits until the other node is deleted. It is the default.", Allows: []error{node.ErrTaken}, Waits: true,
	},

	// Recipes of one kind at one path exclude each other.
	{Story: "*mutex*", Condition: "beside a mutex", Page: "recipes/lock/doc.go", Sentence: exclusive, Allows: notFree, Peers: true, Waits: true, Silent: true},
	{Story: "*job", Condition: "beside a mutex", Page: "recipes/lock/doc.go", Sentence: exclusive, Allows: notFree, Peers: true, Waits: true, Silent: true},
	{Story: "revocable", Condition: "beside a mutex", Page: "recipes/lock/doc.go", Sentence: exclusive, Allows: notFree, Peers: true, Waits: true, Silent: true},
	{Story: "lock of zkconn", Condition: "beside a mutex", Page: "recipes/lock/doc.go", Sentence: exclusive, Allows: notFree, Peers: true, Waits: true, Silent: true},
	{Story: "lock of zkconn", Condition: "beside a write lock", Page: "recipes/lock/doc.go", Sentence: exclusive, Allows: notFree, Peers: true, Waits: true, Silent: true},
	{Story: "election with a selector", Condition: "beside a mutex", Page: "recipes/lock/doc.go", Sentence: exclusive, Allows: notFree, Peers: true, Waits: true, Silent: true},
	{Story: "semaphore*", Condition: "beside a semaphore", Page: "recipes/lock/doc.go", Sentence: exclusive, Allows: notFree, Peers: true, Waits: true, Silent: true},
	{Story: "* lock", Condition: "beside a write lock", Page: "recipes/lock/doc.go", Sentence: exclusive, Allows: notFree, Peers: true, Waits: true, Silent: true},
	{Story: "election*", Condition: "beside an election", Page: "recipes/lock/doc.go", Sentence: exclusive, Allows: notFree, Peers: true, Waits: true, Silent: true},
	{
		Story: "barrier", Condition: "beside *", Page: "framework/delete.go", Sentence: "zk.ErrNotEmpty if it has children", Allows: []error{zk.ErrNotEmpty}, Peers: true,
	},

	// Nodes that Close cannot delete.
	{
		Story: "kept persistent node", Condition: "view of a session", Page: "framework/client.go", Sentence: "After s has expired, they fail",
		Leaves: []string{"/n"},
	},
	{
		Story: "static service", Condition: "view of a session", Page: "framework/client.go", Sentence: "After s has expired, they fail",
		Leaves: []string{"/orders/*"},
	},
	{
		Story: "kept persistent node", Condition: "Close*", Page: "recipes/node/node.go",
		Sentence: "[framework.ErrClosed] if a persistent node remains because the client was closed first", Leaves: []string{"/n"},
	},
	{
		Story: "kept persistent node", Condition: "Shutdown*", Page: "framework/shutdown.go",
		Sentence: "Persistent nodes are kept.", Leaves: []string{"/n"},
	},
	{
		Story: "static service", Condition: "Close*", Page: "recipes/node/node.go",
		Sentence: "[framework.ErrClosed] if a persistent node remains because the client was closed first", Leaves: []string{"/orders/*"},
	},
	{Story: "static service", Condition: "Shutdown*", Page: "framework/shutdown.go", Sentence: "Persistent nodes are kept.", Leaves: []string{"/orders/*"}},
	{
		Story: "Dubbo", Condition: "Close*", Page: "recipes/node/node.go",
		Sentence: "[framework.ErrClosed] if a persistent node remains because the client was closed first", Leaves: []string{"/dubbo/*"},
	},
	{Story: "Dubbo", Condition: "Shutdown*", Page: "framework/shutdown.go", Sentence: "Persistent nodes are kept.", Leaves: []string{"/dubbo/*"}},
	{
		Story: "Dubbo", Condition: "denied*read at /services/orders", Page: "discovery/dubbo/dubbo.go",
		Sentence: "its error names the nodes that may remain", Leaves: []string{"/dubbo/*"},
	},
	{
		Story: "Dubbo", Condition: "denied*delete at /services/orders", Page: "discovery/dubbo/doc.go",
		Sentence: "Close deletes the revision if no instance uses it", Leaves: []string{"/dubbo/*"},
	},
	{
		Story: "double barrier", Condition: "*", Page: "recipes/barrier/barrier.go",
		Sentence: "stays. The next Enter deletes it", Leaves: []string{"/ready"},
	},

	// The nodes are deleted at once. Then the client looks for a create of the session that was
	// lost.
	{
		Story: "kept persistent node", Condition: "expire *", Page: "recipes/node/node.go",
		Sentence: "context.DeadlineExceeded if the deletion is not confirmed after 5 s", Allows: []error{context.DeadlineExceeded},
	},
	{
		Story: "static service", Condition: "expire *", Page: "recipes/node/node.go",
		Sentence: "context.DeadlineExceeded if the deletion is not confirmed after 5 s", Allows: []error{context.DeadlineExceeded},
	},

	// Data and rights.
	{
		Story: "*service", Condition: "ACL of another", Page: "discovery/doc.go",
		Sentence: "A node that the client is not permitted to read, or that is not compressed on a client with framework.WithCompression, is reported by [Discovery.Lookup], and not by a Watch.", Silent: true,
	},
	{
		Story: "Kratos", Condition: "ACL of another", Page: "recipes/cache/doc.go",
		Sentence: "report nothing about a node to a client that is not permitted to read it at that moment", Silent: true,
	},
	{
		Story: "Kratos", Condition: "denied in the middle: read at *", Page: "recipes/cache/doc.go",
		Sentence: "report nothing about a node to a client that is not permitted to read it at that moment", Silent: true,
	},
	{
		Story: "gRPC", Condition: "another client deletes*", Page: "discovery/grpcresolver/doc.go",
		Sentence: "Calls fail with the reason if a service has no instance", Allows: []error{discovery.ErrNoInstance},
	},
	{
		Story: "group", Condition: "denied in the middle: read at *", Page: "recipes/cache/doc.go",
		Sentence: "report nothing about a node to a client that is not permitted to read it at that moment", Silent: true,
	},
	{
		Story: "*service", Condition: "denied in the middle: read at *", Page: "recipes/cache/doc.go",
		Sentence: "report nothing about a node to a client that is not permitted to read it at that moment", Silent: true,
	},
	{
		Story: "permanent service", Condition: "Close*", Page: "discovery/register.go",
		Sentence: "The node is not kept, and exists until [Discovery.Unregister].", Leaves: []string{"/orders/*"},
	},
	{
		Story: "permanent service", Condition: "another client writes garbage", Page: "discovery/discovery.go",
		Sentence: "an error that describes the data if they are not an instance", Any: true,
	},
	{
		Story: "shards", Condition: "another client writes garbage", Page: "recipes/shard/doc.go",
		Sentence: "the shards stay with their owners, and a line is logged", Waits: true,
	},
	{
		Story: "service of Spring", Condition: "an unreadable child below *", Page: "discovery/doc.go",
		Sentence: "rejects one of Spring or Dubbo with zk.ErrNoAuth", Allows: []error{zk.ErrNoAuth},
	},
	{
		Story: "Dubbo", Condition: "an unreadable child below /services/orders", Page: "discovery/doc.go",
		Sentence: "rejects one of Spring or Dubbo with zk.ErrNoAuth", Allows: []error{zk.ErrNoAuth},
	},
	{
		Story: "service of Spring", Condition: "a child with an odd name below *", Page: "discovery/register.go",
		Sentence: "[ErrOtherProfile] if the service has an instance of another profile", Allows: []error{discovery.ErrOtherProfile},
	},
	{
		Story: "Dubbo", Condition: "a child with an odd name below /services/orders", Page: "discovery/register.go",
		Sentence: "[ErrOtherProfile] if the service has an instance of another profile", Allows: []error{discovery.ErrOtherProfile},
	},
	{
		Story: "HTTP client", Condition: "another client deletes*", Page: "discovery/httpclient/httpclient.go",
		Sentence: "discovery.ErrNoInstance if no instance is available", Allows: []error{discovery.ErrNoInstance},
	},

	{
		Story: "lock of zkconn", Condition: "a node of a writer below the path", Page: "zkconn/lock.go",
		Sentence: "Names of kazoo's lock contain \"__lock__\" before the number.", Waits: true, Silent: true,
	},

	{
		Story: "double barrier", Condition: "a persistent look-alike at *", Page: "recipes/barrier/barrier.go",
		Sentence: "A child with another name than a UUID is not a member.", Waits: true, Silent: true,
	},
	{
		Story: "double barrier", Condition: "expire *", Page: "recipes/barrier/double.go",
		Sentence: "is returned by [Double.Enter] if its request to open the barrier was not answered before its session expired", Allows: []error{barrier.ErrMissed},
	},

	{
		Story: "double barrier", Condition: "an outage of a minute", Page: "recipes/barrier/barrier.go",
		Sentence: "A crashed process counts until its session has expired.", Waits: true, Silent: true, Peers: true, Allows: []error{context.DeadlineExceeded},
	},
	{
		Story: "double barrier", Condition: "all connections freeze for a minute", Page: "recipes/barrier/barrier.go",
		Sentence: "A crashed process counts until its session has expired.", Waits: true, Silent: true, Peers: true, Allows: []error{context.DeadlineExceeded},
	},

	// The errors of go-zookeeper.
	{
		Story: "lock of zkconn", Condition: "expire *", Page: "zkconn/lock.go",
		Sentence: "[ErrSessionExpired] if the session expired and the retry policy allows no more tries", Allows: []error{zk.ErrSessionExpired}, Peers: true,
	},
	{
		Story: "lock of zkconn", Condition: "an outage of a minute", Page: "zkconn/lock.go",
		Sentence: "[ErrSessionExpired] if the session expired and the retry policy allows no more tries", Allows: []error{zk.ErrSessionExpired}, Peers: true,
	},
	{
		Story: "lock of zkconn", Condition: "all connections freeze*", Page: "zkconn/lock.go",
		Sentence: "[ErrSessionExpired] if the session expired and the retry policy allows no more tries", Allows: []error{zk.ErrSessionExpired}, Peers: true,
	},
}

// exclusive is why a lock waits for another of its kind.
const exclusive = "At most as many holds as there are leases have a live context."

// ownKind is why a node with the name of a contender counts.
const ownKind = "Go counts only nodes whose names end with the name of its kind of lock and ten digits"

var notFree = []error{lock.ErrNotAcquired}

// Exception is a row of the table, for the test of its sentence.
type Exception struct{ Page, Sentence, Known string }

// Exceptions returns the rows of the table.
func Exceptions() (all []Exception) {
	for _, e := range exceptions {
		all = append(all, Exception{e.Page, e.Sentence, e.Known})
	}
	return all
}
