package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheServiceMakesEachSeries asks the service for every metric of the dashboards and of the alerts, from both adapters.
func TestTheServiceMakesEachSeries(t *testing.T) {
	rules, err := os.ReadFile("../../docs/alerts.yml")
	require.NoError(t, err)
	panels, err := readDashboards("../../docs")
	require.NoError(t, err)
	names := metricName.FindAllString(string(rules), -1)
	for _, p := range panels {
		names = append(names, metricName.FindAllString(p.source(), -1)...)
	}
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
				assert.Contains(t, string(text), label)
			}
		}, 20*time.Second, 500*time.Millisecond, path)
	}
}

var (
	metricName = regexp.MustCompile(`\bcurator_\w+`)
	alertName  = regexp.MustCompile(`\bCurator[A-Z]\w+`)
)

// TestThePictureIsOfTheDashboards requires that docs/dashboard.svg was drawn by this program from the panels as they are.
func TestThePictureIsOfTheDashboards(t *testing.T) {
	panels, err := readDashboards("../../docs")
	require.NoError(t, err)
	picture, err := os.ReadFile("../../docs/dashboard.svg")
	require.NoError(t, err)
	require.Equal(t, len(panels), strings.Count(string(picture), "<desc>"))
	for _, p := range panels {
		require.Contains(t, string(picture), p.source(), "go run . -for 3m -out ../../docs/dashboard.svg")
	}
}

// TestAlertsAreAboutWhatPanelsShow requires that each metric of an alert has a panel, and that docs/WATCHING.md explains each alert.
func TestAlertsAreAboutWhatPanelsShow(t *testing.T) {
	rules, err := os.ReadFile("../../docs/alerts.yml")
	require.NoError(t, err)
	panels, err := readDashboards("../../docs")
	require.NoError(t, err)
	var shown strings.Builder
	for _, p := range panels {
		shown.WriteString(p.source())
	}
	for _, name := range metricName.FindAllString(string(rules), -1) {
		require.Contains(t, shown.String(), name)
	}
	page, err := os.ReadFile("../../docs/WATCHING.md")
	require.NoError(t, err)
	unique := func(names []string) []string { slices.Sort(names); return slices.Compact(names) }
	require.Equal(t, unique(alertName.FindAllString(string(rules), -1)), unique(alertName.FindAllString(string(page), -1)))
	titles := regexp.MustCompile(`(?m)^\|.*?\*([A-Z][\w ]+)\*`).FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, titles)
	for _, title := range titles {
		require.Contains(t, shown.String(), "<desc>"+title[1]+": ", "a panel that the page names")
	}
}

func TestDrawing(t *testing.T) {
	panels, err := readDashboards("../../docs")
	require.NoError(t, err)
	require.NotEmpty(t, panels)
	var lines []line
	require.NoError(t, json.Unmarshal([]byte(`[{"metric":{"state":"lost"},"values":[[100,"1"],[110,"NaN"],[120,"0.5"]]}]`), &lines))
	require.True(t, math.IsNaN(lines[0].Values[1].v))
	for _, p := range panels {
		p.lines, p.legend = lines, []string{"a <line>"}
	}
	d := drawing{time.Unix(100, 0), time.Unix(120, 0), panels}
	require.NoError(t, xml.Unmarshal([]byte(d.svg()), new(struct{})))
	assert.Contains(t, d.svg(), panels[0].Title)
	assert.NotContains(t, d.svg(), "NaN")
}

func TestNumber(t *testing.T) {
	for want, got := range map[string]string{
		"5 ms":   number(0.005, "s"),
		"1.5 s":  number(1.5, "s"),
		"1234/s": number(1234, "ops"),
		"0.5":    number(0.5, "short"),
		"–":      number(math.NaN(), "s"),
	} {
		assert.Equal(t, want, got)
	}
}
