package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

// prometheus runs Debian's Prometheus in Docker, with the configuration that the README has, and
// returns its address.
func prometheus(t *testing.T, sd string) (address string) {
	t.Helper()
	testlevel.Need(t, testlevel.Nightly) // it may have to build an image
	if os.Getenv("CURATOR_TEST_DOCKER") != "1" {
		t.Skip("LEFT OUT: needs a Docker engine, and scripts/test.sh has found none")
	}
	out, err := exec.Command("../../scripts/prometheus-image.sh").Output()
	require.NoError(t, err, "%s", out)
	image := strings.TrimSpace(string(out))

	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	config := fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: services
    http_sd_configs:
      - url: %s/
        refresh_interval: 1s
    relabel_configs:
      - source_labels: [__meta_curator_service]
        target_label: service
`, sd)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644))
	l := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
	address = l.Addr().String()
	require.NoError(t, l.Close())
	out, err = exec.Command("docker", "run", "-d", "--rm", "--network", "host", "-v", dir+":/etc/zkdiscover:ro", "--tmpfs", "/data", image,
		"prometheus", "--config.file=/etc/zkdiscover/prometheus.yml", "--storage.tsdb.path=/data", "--web.listen-address="+address).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "-f", strings.TrimSpace(string(out))).Run() })
	return address
}

// page is what Prometheus serves, or "" while it does not.
func page(address, path string) string {
	answer, err := http.Get("http://" + address + path)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// targetsOf returns the health of the targets of Prometheus, by the service and the address of
// each.
func targetsOf(address string) map[string]string {
	var answer struct {
		Data struct {
			ActiveTargets []struct {
				Labels map[string]string
				Health string
			}
		}
	}
	// invalid JSON has no target
	_ = json.Unmarshal([]byte(page(address, "/api/v1/targets")), &answer)
	all := map[string]string{}
	for _, target := range answer.Data.ActiveTargets {
		all[target.Labels["service"]+" "+target.Labels["instance"]] = target.Health
	}
	return all
}

func TestARealPrometheusFindsTheInstancesAndForgetsThoseThatGo(t *testing.T) {
	server := zktest.NewServer(t)
	out, end := begin(t, server, "http", "--connect", "2s", "--listen", "127.0.0.1:0")
	address := prometheus(t, out.await(t, `serving http_sd at (\S+)`))
	defer http.DefaultClient.CloseIdleConnections()
	d := testbed.Must(discovery.New[discovery.Metadata](testbed.NewClient(t, server.Servers()), "/services"))

	want, regs := map[string]string{}, map[string]*discovery.Registration[discovery.Metadata]{}
	for _, name := range []string{"orders", "orders", "stock"} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "requests_total 1") }))
		t.Cleanup(service.Close)
		tcp := service.Listener.Addr().(*net.TCPAddr)
		reg := testbed.Must(d.Register(t.Context(), discovery.Spring(name, tcp.IP.String(), tcp.Port, nil)))
		key := name + " " + tcp.String()
		want[key], regs[key] = "up", reg
	}
	shows := func(what string) {
		t.Helper()
		testbed.Eventually(t, func() bool { return fmt.Sprint(targetsOf(address)) == fmt.Sprint(want) }, what)
	}
	shows("all three are scraped")
	for key, reg := range regs {
		require.NoError(t, reg.Close())
		delete(want, key)
		break
	}
	shows("one has gone")

	server.Stop()
	failed := regexp.MustCompile(`(?m)^prometheus_sd_http_failures_total.* [1-9]`)
	testbed.Eventually(t, func() bool { return failed.MatchString(page(address, "/metrics")) }, "the failure is counted")
	shows("the list stays without ZooKeeper")
	require.NoError(t, server.Restart()) // so that the registration can be deleted
	require.Zero(t, end())
}
