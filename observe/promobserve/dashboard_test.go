package promobserve_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/observe/internal/labels"
	"github.com/gocurator/curator/observe/promobserve"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
)

// dashboard is what matters of the file.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		Targets     []struct{ Expr, LegendFormat string }
	}
}

var (
	metricName = regexp.MustCompile(`\bcurator_\w+`)
	variable   = regexp.MustCompile(`"\$(\w+)"`)
	// A label is matched, summed by, or listed: {lock=~"x"}, by (le, lock), label_values(m, lock).
	matched = regexp.MustCompile(`(\w+)=~?"`)
	ofKind  = regexp.MustCompile(`kind="(\w+)"`)
	listed  = regexp.MustCompile(`by \(([^)]*)\)|label_values\([^)]*, (\w+)\)`)
)

// TestTheDashboardAsksForWhatThereIs holds every query of docs/dashboard.json against the metrics
// of a run in which everything happens at least once.
func TestTheDashboardAsksForWhatThereIs(t *testing.T) {
	queries := holdAgainst(t, "../../docs/dashboard.json", exportedLabels(t))
	elections := 0
	for query := range queries {
		for _, m := range ofKind.FindAllStringSubmatch(query, -1) {
			assert.Equal(t, labels.Kind("latch-"), m[1], query)
			elections++
		}
	}
	assert.Equal(t, 3, elections, "panels show terms of leadership")
}

// TestTheDashboardOfCachesAsksForWhatThereIs does the same with the collectors' dashboard.
func TestTheDashboardOfCachesAsksForWhatThereIs(t *testing.T) {
	b := newBed(t)
	client := b.client(t)
	b.watched(t, client, "/config", "configuration")
	n := testbed.Must(node.Keep(testbed.Context(t), client, "/workers/7", nil))
	defer n.Close()
	require.NoError(t, b.ObserveNode(n, "worker"))
	exported := b.labels(t)
	maps.DeleteFunc(exported, func(name string, _ []string) bool {
		return !strings.HasPrefix(name, "curator_cache_") && !strings.HasPrefix(name, "curator_node_")
	})
	require.Len(t, exported, 6, "five metrics of a cache, and one of a node")
	holdAgainst(t, "../../docs/dashboard-caches.json", exported)
}

// holdAgainst checks that a dashboard's queries have names and labels that are exported, and that
// each name has a panel. It returns where each query is.
func holdAgainst(t *testing.T, path string, exported map[string][]string) (queries map[string]string) {
	t.Helper()
	file := testbed.Must(os.ReadFile(path))
	var board dashboard
	require.NoError(t, json.Unmarshal(file, &board))

	queries = map[string]string{}
	variables := map[string]bool{}
	for _, v := range board.Templating.List {
		variables[v.Name] = true
		if v.Definition != "" {
			queries[v.Definition] = "variable " + v.Name
		}
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		assert.False(t, ids[p.ID], "panel id %d is used twice", p.ID)
		ids[p.ID] = true
		assert.NotEmpty(t, p.Title)
		assert.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			queries[target.Expr] = p.Title
			if strings.Contains(target.Expr, "lock)") || strings.Contains(target.Expr, "(lock,") {
				assert.Contains(t, target.Expr, "lock, kind)", "%s mixes the kinds of locks on one path", p.Title)
				assert.Contains(t, target.LegendFormat, "{{kind}}", p.Title)
			}
		}
	}
	require.NotEmpty(t, queries)

	asked := map[string]bool{}
	for query, where := range queries {
		names := metricName.FindAllString(query, -1)
		require.Len(t, names, 1, "%s: %s", where, query)
		name := names[0]
		labels, ok := exported[name]
		if !assert.True(t, ok, "%s asks for %s, which is not exported", where, name) {
			continue
		}
		for _, part := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, part)
		}
		asked[name] = true
		var used []string
		for _, m := range matched.FindAllStringSubmatch(query, -1) {
			used = append(used, m[1])
		}
		for _, m := range listed.FindAllStringSubmatch(query, -1) {
			used = append(used, strings.Split(m[1]+m[2], ", ")...)
		}
		for _, label := range used {
			// Prometheus itself adds job and instance.
			assert.Contains(t, append([]string{"job", "instance"}, labels...), label, "%s: %s", where, query)
		}
		for _, m := range variable.FindAllStringSubmatch(query, -1) {
			assert.True(t, variables[m[1]], "%s: no variable %s", where, m[1])
		}
	}
	for name := range exported {
		for _, part := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, part)
		}
		assert.True(t, asked[name], "no panel shows %s", name)
	}
	return queries
}

// exportedLabels returns the labels of all metrics exported in a real run, by metric name.
func exportedLabels(t *testing.T) map[string][]string {
	t.Helper()
	b := newBed(t, promobserve.WithLockLabel(func(path, _ string) string { return path }))
	m := testbed.Must(mutex.New(b.client(t), "/lock"))
	require.NoError(t, m.Do(testbed.Context(t), func(ctx context.Context) error {
		_, err := m.TryAcquire(testbed.Context(t)) // not with ctx: as another caller
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		return nil
	}))
	exported := b.labels(t)
	require.Len(t, exported, 11+2*4, "eleven metrics, of which four are histograms")
	return exported
}

// labels returns the labels of everything that is exported now, by name as it is scraped.
func (b *bed) labels(t *testing.T) map[string][]string {
	t.Helper()
	families, err := b.registry.Gather()
	require.NoError(t, err)
	exported := map[string][]string{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			exported[f.GetName()+"_bucket"] = append([]string{"le"}, labels...)
			exported[f.GetName()+"_count"] = labels
			exported[f.GetName()+"_sum"] = labels
		} else {
			exported[f.GetName()] = labels
		}
	}
	return exported
}
