package main

import (
	"fmt"
	"math"
	"strings"
)

// series is a line of the plot.
type series struct {
	name   string
	dashed bool
	points []point
}

// point is a number of waiters, and microseconds for each hand-off.
type point struct{ waiters, micros float64 }

// The plot's size, and where its axes are.
const (
	width, height            = 860, 460
	left, right, top, bottom = 70, 620, 30, 410
)

var colours = []string{"#888888", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"}

// plot draws the cost of a hand-off against the number of waiters, both on logarithmic scales.
func plot(lines []series) string {
	least, most := math.Inf(1), 0.0
	for _, s := range lines {
		for _, p := range s.points {
			least, most = min(least, p.micros), max(most, p.micros)
		}
	}
	x := func(waiters float64) float64 { return left + (right-left)*math.Log(waiters/2)/math.Log(500) }
	low, high := math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most)))
	y := func(micros float64) float64 { return bottom - (bottom-top)*math.Log(micros/low)/math.Log(high/low) }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for _, n := range []float64{2, 10, 100, 1000} {
		fmt.Fprintf(&b, `<path d="M%.0f %dV%d" stroke="#dddddd"/><text x="%.0f" y="%d" text-anchor="middle">%.0f</text>`+"\n", x(n), top, bottom, x(n), bottom+18, n)
	}
	for v := low; v <= high*1.001; v *= 10 {
		for _, part := range []float64{1, 2, 5} {
			if part*v > high*1.001 {
				break
			}
			fmt.Fprintf(&b, `<path d="M%d %.0fH%d" stroke="#dddddd"/><text x="%d" y="%.0f" text-anchor="end">%.0f</text>`+"\n", left, y(part*v), right, left-6, y(part*v)+4, part*v)
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">waiters</text><text x="%d" y="18">µs for each cycle, holds of no length</text>`+"\n", (left+right)/2, bottom+38, left)
	colour := map[string]string{}
	for i, s := range lines {
		system, _, _ := strings.Cut(s.name, ",")
		if colour[system] == "" {
			colour[system] = colours[len(colour)%len(colours)]
		}
		dash := ""
		if s.dashed {
			dash = ` stroke-dasharray="6 4"`
		}
		var path strings.Builder
		for j, p := range s.points {
			path.WriteString(map[bool]string{true: "M", false: "L"}[j == 0])
			fmt.Fprintf(&path, "%.1f %.1f", x(p.waiters), y(p.micros))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(p.waiters), y(p.micros), colour[system])
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", path.String(), colour[system], dash)
		at := top + 20*i
		fmt.Fprintf(&b, `<path d="M%d %dh30" stroke="%s" stroke-width="2"%s/><text x="%d" y="%d">%s</text>`+"\n", right+15, at, colour[system], dash, right+52, at+4, s.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
