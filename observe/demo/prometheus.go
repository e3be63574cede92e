package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// prometheus is one that runs in Docker.
type prometheus struct {
	container, dir, address string
}

const (
	image  = "curator-prometheus:debian" // from scripts/prometheus-image.sh
	scrape = 2 * time.Second
	alerts = "alerts.yml"
)

// startPrometheus has it scrape both paths of a service at address. It does not start with rules that it cannot read.
func startPrometheus(ctx context.Context, address, rules string) (*prometheus, error) {
	text, err := os.ReadFile(rules)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "prometheus")
	if err != nil {
		return nil, err
	}
	p := &prometheus{dir: dir, address: "127.0.0.1:19090"}
	config := fmt.Sprintf("global: {scrape_interval: %v, scrape_timeout: %v}\nrule_files: [%s]\nscrape_configs:\n", scrape, scrape, alerts)
	for job, path := range map[string]string{"prometheus": "/metrics", "otel": "/otel"} {
		config += fmt.Sprintf("- {job_name: %s, metrics_path: %s, static_configs: [{targets: ['%s']}]}\n", job, path, address)
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644),
		os.WriteFile(filepath.Join(dir, alerts), text, 0o644), os.Chmod(dir, 0o755))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	out, err := exec.CommandContext(ctx, "docker", "run", "-d", "--rm", "--network", "host", "-v", dir+":/etc/demo:ro", "--tmpfs", "/data", image,
		"prometheus", "--config.file=/etc/demo/prometheus.yml", "--storage.tsdb.path=/data", "--web.listen-address="+p.address).CombinedOutput()
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("docker: %s", out)
	}
	p.container = strings.TrimSpace(string(out))
	return p, nil
}

func (p *prometheus) stop() {
	if p.container != "" {
		_ = exec.Command("docker", "rm", "-f", p.container).Run()
	}
	_ = os.RemoveAll(p.dir)
}

// line is one that a query returns.
type line struct {
	Metric map[string]string `json:"metric"`
	Values []value           `json:"values"`
}

// value is a time in seconds and a number; the number is NaN where there is none.
type value struct{ at, v float64 }

func (v *value) UnmarshalJSON(text []byte) error {
	var pair [2]any
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	at, _ := pair[0].(float64)
	number, _ := pair[1].(string)
	parsed, err := strconv.ParseFloat(number, 64)
	*v = value{at, parsed}
	return err
}

// query asks for a range.
func (p *prometheus) query(ctx context.Context, expr string, from, to time.Time) ([]line, error) {
	target := "http://" + p.address + "/api/v1/query_range?" + url.Values{
		"query": {expr},
		"start": {strconv.FormatInt(from.Unix(), 10)},
		"end":   {strconv.FormatInt(to.Unix(), 10)},
		"step":  {scrape.String()},
	}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []line }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	return answer.Data.Result, nil
}
