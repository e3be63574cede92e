package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// panel is one of the dashboard, with what it shows.
type panel struct {
	Type, Title string
	GridPos     struct{ X, Y, W, H float64 }
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }

	lines  []line
	legend []string
}

// readDashboards reads the panels of all dashboards in a directory, each below the one before.
func readDashboards(dir string) ([]*panel, error) {
	var all []*panel
	for _, file := range []string{"dashboard.json", "dashboard-caches.json"} {
		panels, err := readDashboard(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		below := height(all)
		for _, p := range panels {
			p.GridPos.Y += below
		}
		all = append(all, panels...)
	}
	return all, nil
}

// height is where the lowest panel ends, in cells.
func height(panels []*panel) (bottom float64) {
	for _, p := range panels {
		bottom = max(bottom, p.GridPos.Y+p.GridPos.H)
	}
	return bottom
}

func readDashboard(file string) ([]*panel, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var dashboard struct{ Panels []*panel }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, err
	}
	var panels []*panel
	for _, p := range dashboard.Panels {
		if p.Type != "row" {
			panels = append(panels, p)
		}
	}
	return panels, nil
}

var label = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// fill asks Prometheus what the panel shows of a job.
func (p *panel) fill(ctx context.Context, from *prometheus, job string, began, ended time.Time) error {
	p.lines, p.legend = nil, nil
	variables := strings.NewReplacer("$job", job, "$instance", ".*", "$lock", ".*",
		"$__range", fmt.Sprintf("%ds", int(ended.Sub(began).Seconds())), "$__rate_interval", "15s")
	for _, t := range p.Targets {
		lines, err := from.query(ctx, variables.Replace(t.Expr), began, ended)
		if err != nil {
			return err
		}
		for _, l := range lines {
			name := label.ReplaceAllStringFunc(t.LegendFormat, func(s string) string { return l.Metric[label.FindStringSubmatch(s)[1]] })
			if p.Type == "table" {
				name = strings.Join([]string{l.Metric["job"], l.Metric["state"]}, " ")
			}
			p.lines, p.legend = append(p.lines, l), append(p.legend, name)
		}
	}
	return nil
}

// exceptional reports whether a panel shows something only when it is wrong.
func (p *panel) exceptional() bool {
	return len(p.Targets) == 1 && strings.HasSuffix(p.Targets[0].Expr, "== 0)")
}

// drawing is the whole dashboard.
type drawing struct {
	began, ended time.Time
	panels       []*panel
}

// A cell of the dashboard's grid, which is 24 wide.
const cellWidth, cellHeight, gap = 58.0, 30.0, 6.0

var colours = []string{"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"}

func (d drawing) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="10">`+"\n", 24*cellWidth, height(d.panels)*cellHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#f4f5f5"/>`+"\n")
	for _, p := range d.panels {
		x, y := p.GridPos.X*cellWidth+gap/2, p.GridPos.Y*cellHeight+gap/2
		w, h := p.GridPos.W*cellWidth-gap, p.GridPos.H*cellHeight-gap
		fmt.Fprintf(&b, `<g transform="translate(%.1f %.1f)"><rect width="%.1f" height="%.1f" rx="3" fill="white" stroke="#dddddd"/>`, x, y, w, h)
		fmt.Fprintf(&b, `<text x="8" y="16" font-size="12" font-weight="bold">%s</text>`+"\n", html.EscapeString(p.Title))
		b.WriteString(p.source())
		switch p.Type {
		case "stat":
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" font-size="34" text-anchor="middle">%s</text>`, w/2, h*0.75, number(math.Round(p.last(0)), ""))
		case "table":
			row := 0
			for i, name := range p.legend {
				if values := p.lines[i].Values; values[len(values)-1].at < float64(d.ended.Add(-2*scrape).Unix()) {
					continue // it was so, and is not any more
				}
				fmt.Fprintf(&b, `<text x="14" y="%d" font-size="12">%s</text><text x="%.1f" y="%d" font-size="12" text-anchor="end">%s</text>`+"\n",
					40+18*row, html.EscapeString(name), w-14, 40+18*row, number(p.last(i), ""))
				row++
			}
		default:
			d.chart(&b, p, w, h)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// source is what a panel asks for. A picture has it, so that a test finds one that is not of the dashboards as they are.
func (p *panel) source() string {
	var exprs []string
	for _, t := range p.Targets {
		exprs = append(exprs, t.Expr)
	}
	return fmt.Sprintf("<desc>%s: %s</desc>\n", html.EscapeString(p.Title), html.EscapeString(strings.Join(exprs, "; ")))
}

// last is the value of a line at the end.
func (p *panel) last(i int) float64 {
	values := p.lines[i].Values
	return values[len(values)-1].v
}

// chart draws lines over time, and which is which below them.
func (d drawing) chart(b *strings.Builder, p *panel, w, h float64) {
	const left, top = 48.0, 26.0
	perRow := max(1, int((w-left)/130))
	rows := (len(p.legend) + perRow - 1) / perRow
	right, bottom := w-10, h-20-12*float64(rows)
	most := 0.0
	for _, l := range p.lines {
		for _, v := range l.Values {
			if !math.IsNaN(v.v) && !math.IsInf(v.v, 0) {
				most = max(most, v.v)
			}
		}
	}
	if most == 0 {
		most = 1
	}
	began, ended := float64(d.began.Unix()), float64(d.ended.Unix())
	x := func(at float64) float64 { return left + (right-left)*(at-began)/(ended-began) }
	y := func(v float64) float64 { return bottom - (bottom-top)*v/most }
	for i := range 5 {
		v := most * float64(i) / 4
		fmt.Fprintf(b, `<path d="M%.0f %.1fH%.0f" stroke="#eeeeee"/><text x="%.0f" y="%.1f" text-anchor="end">%s</text>`, left, y(v), right, left-4, y(v)+3, number(v, p.FieldConfig.Defaults.Unit))
	}
	for at := began; at < ended; at += 30 {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#666666">%.0f s</text>`, x(at), bottom+13, at-began)
	}
	for i, l := range p.lines {
		colour := colours[i%len(colours)]
		var path strings.Builder
		command := "M"
		for _, v := range l.Values {
			if math.IsNaN(v.v) || math.IsInf(v.v, 0) {
				command = "M" // a gap
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, x(v.at), y(v.v))
			command = "L"
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.3"/>`, path.String(), colour)
		legendX, legendY := left+float64(i%perRow)*130, bottom+27+12*float64(i/perRow)
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="8" height="3" fill="%s"/><text x="%.1f" y="%.1f">%s</text>`+"\n",
			legendX, legendY-4, colour, legendX+11, legendY, html.EscapeString(p.legend[i]))
	}
}

// number is short, in the dashboard's unit.
func number(v float64, unit string) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case unit == "s" && v < 1:
		return fmt.Sprintf("%.3g ms", v*1000)
	case unit == "s":
		return fmt.Sprintf("%.3g s", v)
	case unit == "ops":
		return number(v, "") + "/s"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
