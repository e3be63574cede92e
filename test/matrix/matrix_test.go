package matrix_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/test/matrix"
	"github.com/gocurator/curator/internal/test/testbed"
)

// TestMain sets the garbage collector for cells, which allocate much and keep little.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	goleak.VerifyTestMain(m)
}

// table has the stories of each package. A new recipe needs a row here.
var table = map[string][]matrix.Story{
	"framework":            clientStories,
	"framework/compressed": compressedStories,
	"recipes/lock":         queueStories,
	"recipes/mutex":        mutexStories,
	"recipes/rwlock":       rwlockStories,
	"recipes/semaphore":    semaphoreStories,
	"recipes/multilock":    multilockStories,
	"recipes/revocable":    revocableStories,
	"recipes/leader":       leaderStories,
	"recipes/cache":        cacheStories,
	"recipes/node":         nodeStories,
	"recipes/shared":       sharedStories,
	"recipes/barrier":      barrierStories,
	"recipes/shard":        shardStories,
	"recipes/modeled":      modeledStories,
	"recipes/once":         onceStories,
	"discovery":            discoveryStories,
	"discovery/httpclient": httpclientStories,
	"discovery/dubbo":      dubboStories,
	"zkconn":               zkconnStories,
}

// elsewhere are packages in modules of their own, whose stories are in their matrix_test.go.
var elsewhere = []string{"discovery/grpcresolver", "discovery/kratosregistry"}

// TestMatrix runs each story under each condition.
func TestMatrix(t *testing.T) {
	var all []matrix.Story
	for _, stories := range table {
		all = append(all, stories...)
	}
	slices.SortFunc(all, func(a, b matrix.Story) int { return strings.Compare(a.Name, b.Name) })
	matrix.Run(t, all...)
}

// TestTable_HasAllRecipes requires a story of each folder below recipes and discovery.
func TestTable_HasAllRecipes(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, parent := range []string{"recipes", "discovery"} {
		entries := testbed.Must(os.ReadDir(filepath.Join(root, parent)))
		for _, e := range entries {
			name := parent + "/" + e.Name()
			if !e.IsDir() || e.Name() == "internal" || e.Name() == "testdata" {
				continue
			}
			if slices.Contains(elsewhere, name) {
				text := testbed.Must(os.ReadFile(filepath.Join(root, name, "matrix_test.go")))
				assert.Contains(t, string(text), "matrix.Run(t, ", name)
				continue
			}
			assert.NotEmpty(t, table[name], "%s has no story in the matrix: add one to the table in test/matrix/matrix_test.go", name)
		}
	}
	names := map[string]bool{}
	for folder, stories := range table {
		assert.NotEmpty(t, stories, folder)
		assert.DirExists(t, filepath.Join(root, folder))
		for _, st := range stories {
			assert.False(t, names[st.Name], "two stories are called %q", st.Name)
			names[st.Name] = true
		}
	}
}

// TestExceptions_AreDocumented requires that each exception quotes its page.
func TestExceptions_AreDocumented(t *testing.T) {
	for _, e := range matrix.Exceptions() {
		if e.Known != "" {
			continue
		}
		text := testbed.Must(os.ReadFile(filepath.Join("..", "..", e.Page)))
		assert.Contains(t, words(string(text)), words(e.Sentence), "%s does not say so", e.Page)
	}
}

// words are the words of a text, without the marks of comments.
func words(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(strings.ReplaceAll(text, "//", " "), "`", "")), " ")
}
