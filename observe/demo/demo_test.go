package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServiceIsWatchedByBoth(t *testing.T) {
	err := serve(t.Context(), "127.0.0.1:0", func(address string) error {
		for _, path := range []string{"/metrics", "/otel"} {
			assert.Eventually(t, func() bool {
				response, err := http.Get("http://" + address + path)
				if err != nil {
					return false
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				return err == nil && contains(string(text), `curator_lock_held`, `lock="billing"`, `kind="mutex"`, `kind="read"`, `kind="lease"`, `kind="election"`, `curator_lock_wait_duration_seconds_bucket`, `curator_lock_losses_total`, `curator_connection_state`)
			}, 20*time.Second, 50*time.Millisecond, path)
		}
		return nil
	})
	require.NoError(t, err)
}

func contains(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

func TestDrawing(t *testing.T) {
	panels, err := readDashboard("../../docs/dashboard.json")
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
