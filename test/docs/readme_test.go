package docs_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/transcript"
	"github.com/gocurator/curator/recipes/barrier"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/modeled"
	"github.com/gocurator/curator/recipes/multilock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/recipes/revocable"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shard"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/zktest"
)

// The README's first snippet is examples/first, and its other code is below. All of it is run.

func lead(ctx context.Context, client *framework.Client) error {
	election, err := leader.New(client, "/scheduler/leader")
	if err != nil {
		return err
	}
	return election.Run(ctx, func(ctx context.Context, term *leader.Term) error {
		return schedule(ctx) // this ctx is cancelled before another process can lead
	}) // campaigns again after each term, until the caller's ctx is done
}

// schedule works until ctx is cancelled.
var schedule = func(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestReadme_Election(t *testing.T) {
	terms := make(chan context.Context)
	defer func(f func(context.Context) error) { schedule = f }(schedule)
	schedule = func(ctx context.Context) error {
		terms <- ctx
		<-ctx.Done()
		return nil
	}
	server := zktest.NewServer(t)
	ctx, cancel := context.WithCancel(testbed.Context(t))
	defer cancel()
	ended := make(chan error, 1)
	client := newClient(t, server)
	go func() { ended <- lead(ctx, client) }()
	first := testbed.Receive(t, terms, "the first term")
	server.CutConnections()
	<-first.Done()
	require.ErrorIs(t, context.Cause(first), framework.ErrSuspended)
	second := testbed.Receive(t, terms, "the second term")
	cancel()
	<-second.Done()
	require.ErrorIs(t, testbed.Receive(t, ended, "the end"), context.Canceled)
}

func TestALossStopsTheWork(t *testing.T) {
	server := zktest.NewServer(t) // closed when the test ends
	client, err := framework.New(server.Servers())
	require.NoError(t, err)
	defer client.Close()
	m, err := mutex.New(client, "/billing/nightly")
	require.NoError(t, err)
	hold, err := m.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, server.ExpireSession(hold.Session().ID()))
	<-hold.Done()
	require.ErrorIs(t, hold.Err(), framework.ErrLost)
}

func Example_recipes() {
	driver := lock.Standard{}
	try := func(what string, acquire func() error, err error) {
		if err == nil {
			err = acquire()
		}
		fmt.Println(what, err)
	}
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

	nothing := func(context.Context) error { return nil }
	m, err := mutex.New(client, "/billing/nightly")
	try("mutex", func() error { return m.Do(ctx, nothing) }, err)
	printer, err := mutex.New(client, "/printer", lock.WithLockDelay(time.Minute))
	try("mutex with a delay", func() error { return printer.Do(ctx, nothing) }, err)
	l, err := rwlock.New(client, "/shop/catalogue")
	try("rwlock", func() error { return l.Read().Do(ctx, nothing) }, err)
	{
		pool, err := semaphore.New(client, "/db/connections", 10)
		try("semaphore", func() error { return pool.Do(ctx, nothing) }, err)
	}
	limit, err := shared.Int32(client, "/db/limit")
	try("the limit", func() error { return limit.Set(ctx, 10) }, err)
	pool, err := semaphore.NewShared(client, "/db/connections", "/db/limit")
	try("shared", func() error { return pool.Do(ctx, nothing) }, err)
	from, to := l.Read(), m
	both, err := multilock.New(from, to)
	try("multilock", func() error { return both.Do(ctx, nothing) }, err)
	job, err := once.New(client, "/billing/invoices")
	try("job", func() error { _, err := job.Do(ctx, "2026-11-28", nothing); return err }, err)
	batch, err := revocable.New(m)
	try("revocable", func() error {
		return batch.Do(ctx, func(context.Context, <-chan struct{}) error { return nil })
	}, err)
	q, err := lock.New(client, "/jobs", "job-", driver)
	try("lock", func() error { return q.Do(ctx, nothing) }, err)
	e, err := leader.New(client, "/scheduler/leader")
	try("leader", func() error { return e.Lead(ctx, func(context.Context, *leader.Term) error { return nil }) }, err)
	c, err := cache.New(client, "/config")
	try("cache", func() error { return errors.Join(c.Sync(ctx), c.Close()) }, err)
	data := []byte("ready")
	n, err := node.Keep(ctx, client, "/workers/host-7", data)
	try("node", func() error { return n.Close() }, err)
	{
		n, err := shared.Int64(client, "/orders/next")
		try("shared value", func() error { return n.Set(ctx, 1) }, err)
	}
	users, err := modeled.New[string](client, "/users")
	try("typed nodes", func() error { _, err := users.Set(ctx, "ann", "Ann"); return err }, err)
	b, err := barrier.New(client, "/maintenance")
	try("barrier", func() error { return b.Wait(ctx) }, err)
	const workers = 1
	d, err := barrier.NewDouble(client, "/batches/7", workers)
	try("double barrier", func() error {
		entry, err := d.Enter(ctx)
		if err != nil {
			return err
		}
		return entry.Leave(ctx)
	}, err)
	g, err := node.Join(ctx, client, "/workers", "host-8", data)
	try("group", func() error { return g.Close() }, err)
	s, err := shard.New(client, "/ingest", "host-7", 64)
	try("shards", func() error { return s.Drain(ctx) }, err)
	services, err := discovery.New[string](client, "/services")
	try("discovery", func() error { _, err := services.Names(ctx); return err }, err)
	// Output:
	// mutex <nil>
	// mutex with a delay <nil>
	// rwlock <nil>
	// semaphore <nil>
	// the limit <nil>
	// shared <nil>
	// multilock <nil>
	// job <nil>
	// revocable <nil>
	// lock <nil>
	// leader <nil>
	// cache <nil>
	// node <nil>
	// shared value <nil>
	// typed nodes <nil>
	// barrier <nil>
	// double barrier <nil>
	// group <nil>
	// shards <nil>
	// discovery <nil>
}

// TestReadme_IsShort limits the words outside of tables, with code.
func TestReadme_IsShort(t *testing.T) {
	t.Chdir("../..")
	words := 0
	for line := range strings.Lines(read(t, "README.md")) {
		if !strings.HasPrefix(line, "|") {
			words += len(strings.Fields(line))
		}
	}
	require.LessOrEqual(t, words, 900)
}

// TestReadme_CodeIsRun requires that the first block of Go is a program, that the others are part
// of this file, and that the constructors in the table of recipes are called in the example above.
func TestReadme_CodeIsRun(t *testing.T) {
	t.Chdir("../..")
	source := read(t, "test/docs/readme_test.go")
	blocks := transcript.Blocks(t, "README.md", "go")
	require.NotEmpty(t, blocks)
	program := read(t, "examples/first/main.go")
	assert.Equal(t, program[strings.Index(program, "package main"):], blocks[0])
	for _, block := range blocks[1:] {
		assert.Contains(t, source, block)
	}
	_, table, found := strings.Cut(read(t, "README.md"), "\n## What is in it\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	names := regexp.MustCompile("(?m)^\\|[^|]*\\| `(\\w+\\.\\w+)` \\|").FindAllStringSubmatch(table, -1)
	require.Greater(t, len(names), 10)
	for _, name := range names {
		assert.Regexp(t, regexp.QuoteMeta(name[1])+`[(\[]`, source)
	}
}

func TestReadme_Transcripts(t *testing.T) {
	t.Chdir("../..")
	transcript.Check(t, "README.md", os.Environ())
}

// TestDocuments_Names looks for what the documents call package.Name, in the packages themselves.
func TestDocuments_Names(t *testing.T) {
	t.Chdir("../..")
	exported := map[string]map[string]bool{}
	for name, dir := range map[string]string{
		"framework": "framework", "admin": "framework/admin", "compressed": "framework/compressed", "sasl": "sasl", "retry": "retry", "connstate": "connstate",
		"lock": "recipes/lock", "mutex": "recipes/mutex", "rwlock": "recipes/rwlock", "semaphore": "recipes/semaphore",
		"multilock": "recipes/multilock", "revocable": "recipes/revocable", "leader": "recipes/leader", "cache": "recipes/cache",
		"node": "recipes/node", "shared": "recipes/shared", "barrier": "recipes/barrier", "shard": "recipes/shard", "once": "recipes/once", "modeled": "recipes/modeled", "discovery": "discovery", "zkconn": "zkconn", "zktest": "zktest", "ensemble": "zktest/ensemble",
		"engine": "internal/engine", "session": "internal/session", "testbed": "internal/test/testbed", "testlevel": "internal/test/testlevel",
	} {
		exported[name] = namesIn(t, dir)
	}
	found := 0
	for _, file := range documents(t) {
		text := read(t, file)
		for _, m := range regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)`).FindAllStringSubmatch(text, -1) {
			if names, ours := exported[m[1]]; ours {
				found++
				assert.Contains(t, names, m[2], "%s says %s", file, m[0])
			}
		}
	}
	require.Greater(t, found, 50)
}

// TestDocuments_MakeTargets checks that the Makefile has each target that the documents name.
func TestDocuments_MakeTargets(t *testing.T) {
	t.Chdir("../..")
	makefile := read(t, "Makefile")
	found := 0
	for _, file := range documents(t) {
		for _, m := range regexp.MustCompile("(?m)(?:`|^    |; )make ([a-z][a-z-]+)").FindAllStringSubmatch(read(t, file), -1) {
			found++
			assert.Contains(t, makefile, "\n"+m[1]+":", "%s says make %s", file, m[1])
		}
	}
	require.Greater(t, found, 30)
}

// documents are the pages whose names and commands are tested: the pages of the root, of docs, of
// the examples and of test.
func documents(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "test/*/*.md"} {
		found := testbed.Must(filepath.Glob(pattern))
		require.NotEmpty(t, found)
		files = append(files, found...)
	}
	return files
}

// namesIn returns the exported names of a package, without methods.
func namesIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, e := range testbed.Must(os.ReadDir(dir)) {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file := testbed.Must(parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, parser.SkipObjectResolution))
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names[n.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}

// readAll returns the text of all files that match the patterns.
func readAll(t *testing.T, patterns ...string) string {
	t.Helper()
	var text strings.Builder
	for _, pattern := range patterns {
		for _, file := range testbed.Must(filepath.Glob(pattern)) {
			text.WriteString(read(t, file))
		}
	}
	return text.String()
}

func read(t *testing.T, file string) string {
	t.Helper()
	return string(testbed.Must(os.ReadFile(file)))
}
