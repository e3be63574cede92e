package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testlevel"
)

// TestTheServiceMakesEachSeries asks the service for every metric of the dashboards and of the
// alerts, from both adapters.
func TestTheServiceMakesEachSeries(t *testing.T) {
	names := append(metricName.FindAllString(docs(t, "alerts.yml"), -1), metricName.FindAllString(dashboards(t), -1)...)
	s, err := startService(t.Context())
	require.NoError(t, err)
	defer s.stop()
	web := httptest.NewServer(s.metrics())
	defer web.Close()
	for _, path := range []string{"/metrics", "/otel"} {
		assert.EventuallyWithT(t, func(t *assert.CollectT) {
			s.server.CutConnections() // so that something is repeated
			response, err := http.Get(web.URL + path)
			require.NoError(t, err)
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			for _, name := range names {
				assert.Contains(t, string(text), "\n"+name)
			}
			for _, label := range []string{`lock="billing"`, `kind="mutex"`, `kind="read"`, `kind="lease"`, `kind="election"`} {
				if path == "/otel" {
					label = "curator_" + label // until the scrape relabels it
				}
				assert.Contains(t, string(text), label)
			}
		}, 10*time.Minute, 500*time.Millisecond, path)
	}
}

// docs returns the text of a file of docs.
func docs(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", file))
	require.NoError(t, err)
	return string(text)
}

// dashboards returns the text of all dashboards.
func dashboards(t *testing.T) string {
	t.Helper()
	return docs(t, "dashboard.json") + docs(t, "dashboard-caches.json")
}

var (
	metricName = regexp.MustCompile(`\bcurator_\w+`)
	alertName  = regexp.MustCompile(`\bCurator[A-Z]\w+`)
)

// TestAlerts runs the unit tests of the alerts.
func TestAlerts(t *testing.T) {
	folder, err := filepath.Abs("../../docs")
	require.NoError(t, err)
	command := exec.Command("promtool", "test", "rules", "alerts_test.yml")
	if _, err := exec.LookPath("promtool"); err != nil {
		if os.Getenv("CURATOR_TEST_DOCKER") != "1" {
			t.Skip("LEFT OUT: needs promtool (Debian: prometheus), or a Docker engine and scripts/test.sh")
		}
		testlevel.Need(t, testlevel.Nightly) // it may have to build an image
		image, err := exec.Command("../../scripts/prometheus-image.sh").Output()
		require.NoError(t, err, "%s", image)
		command = exec.Command("docker", "run", "--rm", "-v", folder+":/docs:ro", "-w", "/docs", strings.TrimSpace(string(image)),
			"promtool", "test", "rules", "alerts_test.yml")
	}
	command.Dir = folder
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestEachAlertIsTested: docs/alerts_test.yml has an alert that fires, and a day on which it does
// not.
func TestEachAlertIsTested(t *testing.T) {
	tests := docs(t, "alerts_test.yml")
	names := regexp.MustCompile(`(?m)^  - alert: (\w+)`).FindAllStringSubmatch(docs(t, "alerts.yml"), -1)
	require.Len(t, names, 10)
	for _, name := range names {
		require.Regexp(t, `alertname: `+name[1]+`\n    exp_alerts:`, tests, "it fires")
		require.Regexp(t, `\{eval_time: \w+, alertname: `+name[1]+`\}`, tests, "it is silent")
	}
}

// TestAlertsAreAboutWhatPanelsShow requires that each metric of an alert has a panel, and that
// docs/OPERATING.md explains each alert.
func TestAlertsAreAboutWhatPanelsShow(t *testing.T) {
	rules, page, shown := docs(t, "alerts.yml"), docs(t, "OPERATING.md"), dashboards(t)
	for _, name := range metricName.FindAllString(rules, -1) {
		require.Contains(t, shown, name)
	}
	unique := func(names []string) []string { slices.Sort(names); return slices.Compact(names) }
	require.Equal(t, unique(alertName.FindAllString(rules, -1)), unique(alertName.FindAllString(page, -1)))
	titles := regexp.MustCompile(`(?m)^\|.*?\*([A-Z][\w ]+)\*`).FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, titles)
	for _, title := range titles {
		require.Contains(t, shown, `"title": "`+title[1]+`"`, "a panel that the page names")
	}
}
