package timeline

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Sizes of a picture, in pixels.
const (
	pictureWidth = 900
	labelWidth   = 110
	rowHeight    = 16
	tickHeight   = 14
	headHeight   = 44
	charWidth    = 6.2 // approximate width of a character of the font
)

// pictureStyle defines the colours of the page.
const pictureStyle = `
text{font:11px system-ui,sans-serif;fill:#1d2430}.title{font-size:14px;font-weight:600}.faint{fill:#68727f}.line{stroke:#dfe3e8}.back{fill:#fff}
.hold{fill:#2563c9}.wait{fill:#e0a100;fill-opacity:.55}.session{fill:#c4ccd6}.link{fill:#3c9d6b}.leader{fill:#7d5bbe}.fault,.loss{fill:#d63a3a}.band{fill:#d63a3a;opacity:.1}
.tick{stroke:#6b7785}.bad{stroke:#d63a3a}.event{fill:#9a4fc4}.arrow{stroke:#9a4fc4;opacity:.5;fill:none}.act{stroke:#b4541a;stroke-width:2}.on{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e4e8ee}.faint{fill:#97a2b0}.line{stroke:#2c343f}.back{fill:#14181e}
.hold{fill:#6ea0ff}.wait{fill:#e7b53c}.session{fill:#4a5563}.link{fill:#4fbf87}.leader{fill:#a98be6}.fault,.loss{fill:#ff6b6b}.band{fill:#ff6b6b}
.tick{stroke:#8f9bab}.bad{stroke:#ff6b6b}.event{fill:#c98bea}.arrow{stroke:#c98bea}.act{stroke:#f08f4c}.on{fill:#0d1117}}
`

// picture draws entries.
type picture struct {
	bytes.Buffer
	now   time.Duration
	lanes map[string]*pictureLane
}

// pictureLane is a lane with its place.
type pictureLane struct {
	name          string
	entries       []Entry
	y             int
	session, bars int // rows
	ticks         bool
	row           map[int]int // the row of each bar, by its index in entries
}

func (l *pictureLane) height() int {
	h := 8 + (l.session+l.bars)*rowHeight
	if l.ticks {
		h += tickHeight
	}
	return h
}

func (l *pictureLane) ticksAt() int { return l.y + 4 + (l.session+l.bars)*rowHeight }

// WriteSVG writes a picture of the whole run, without pings.
func (r *Recorder) WriteSVG(w io.Writer, title string) error {
	entries, _ := r.Entries()
	p := &picture{now: max(r.now(entries), time.Millisecond), lanes: make(map[string]*pictureLane)}
	height := headHeight
	var order []*pictureLane
	for _, name := range lanes(entries) {
		l := newPictureLane(name, entries)
		l.y = height
		height += l.height()
		order = append(order, l)
		p.lanes[name] = l
	}
	height += 8
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s"><style>%s</style>`,
		pictureWidth, height, html.EscapeString(cut(title)), pictureStyle)
	fmt.Fprintf(p, `<rect class="back" width="%d" height="%d"/>`, pictureWidth, height)
	p.text(8, 17, "title", cut(title), math.MaxInt)
	p.axis(height)
	p.bands(entries, height)
	for _, l := range order {
		p.lane(l)
	}
	p.arrows(entries)
	p.WriteString("</svg>\n")
	_, err := w.Write(p.Bytes())
	return err
}

func newPictureLane(name string, entries []Entry) *pictureLane {
	l := &pictureLane{name: name, row: make(map[int]int)}
	var ends []time.Duration // ends of the rows
	for _, e := range entries {
		if cmp.Or(e.Lane, e.Session) != name || e.What == "ping" {
			continue
		}
		i := len(l.entries)
		l.entries = append(l.entries, e)
		switch e.Kind {
		case Session:
			l.session = 1
		case Hold, Wait, Leader, Fault:
			row := slices.IndexFunc(ends, func(t time.Duration) bool { return t <= e.At })
			if row < 0 {
				row = len(ends)
				ends = append(ends, 0)
			}
			ends[row] = math.MaxInt64
			if e.Dur != Open {
				ends[row] = e.At + e.Dur
			}
			l.row[i] = row
		case Request, Watch, Act:
			l.ticks = true
		}
	}
	l.bars = len(ends)
	return l
}

func (p *picture) x(t time.Duration) float64 {
	return labelWidth + float64(t)/float64(p.now)*(pictureWidth-labelWidth-10)
}

func (p *picture) text(x float64, y int, class, text string, width int) {
	if most := int(float64(width) / charWidth); utf8.RuneCountInString(text) > most {
		if most < 4 {
			return
		}
		text = string([]rune(text)[:most-1]) + "…"
	}
	fmt.Fprintf(p, `<text x="%.1f" y="%d" class="%s">%s</text>`, x, y, class, html.EscapeString(text))
}

// axis draws lines at round times.
func (p *picture) axis(height int) {
	step := p.now / 8
	unit := time.Duration(math.Pow(10, math.Floor(math.Log10(float64(step)))))
	for _, f := range []time.Duration{1, 2, 5, 10} {
		if f*unit >= step {
			step = f * unit
			break
		}
	}
	for t := time.Duration(0); t <= p.now; t += step {
		fmt.Fprintf(p, `<path class="line" d="M%.1f %dV%d"/>`, p.x(t), headHeight-6, height-8)
		p.text(p.x(t)+3, headHeight-8, "faint", strconv.FormatFloat(t.Seconds(), 'f', -1, 64)+" s", math.MaxInt)
	}
}

func (p *picture) bands(entries []Entry, height int) {
	var until time.Duration
	for _, e := range entries {
		if e.Kind != Fault {
			continue
		}
		from, to := max(e.At, until), p.to(e)
		if to > from {
			fmt.Fprintf(p, `<rect class="band" x="%.1f" y="%d" width="%.1f" height="%d"/>`, p.x(from), headHeight, p.x(to)-p.x(from), height-8-headHeight)
			until = to
		}
	}
}

// to returns the end of an entry.
func (p *picture) to(e Entry) time.Duration {
	if e.Dur == Open {
		return p.now
	}
	return e.At + e.Dur
}

func (p *picture) lane(l *pictureLane) {
	fmt.Fprintf(p, `<path class="line" d="M0 %dH%d"/>`, l.y, pictureWidth)
	p.text(8, l.y+15, "", l.name, labelWidth-12)
	for i, e := range l.entries {
		x := p.x(e.At)
		width := max(p.x(p.to(e))-x, 1.5)
		switch e.Kind {
		case Session:
			p.bar(e, x, width, l.y+4, rowHeight-3)
		case Link:
			fmt.Fprintf(p, `<rect class="link" x="%.1f" y="%d" width="%.1f" height="3"/>`, x, l.y+4+rowHeight-5, width)
			if e.Bad && e.Dur != Open {
				fmt.Fprintf(p, `<rect class="loss" x="%.1f" y="%d" width="3" height="3"/>`, x+width-3, l.y+4+rowHeight-5)
			}
		case Hold, Wait, Leader, Fault:
			p.bar(e, x, width, l.y+4+(l.session+l.row[i])*rowHeight, rowHeight-3)
		case Watch:
			fmt.Fprintf(p, `<path class="event" d="M%.1f %dl3 6h-6z"/>`, x, l.ticksAt()+4)
		case Request, Act:
			class := "tick"
			switch {
			case e.Kind == Act:
				class = "act"
			case e.Bad:
				class = "bad"
			}
			fmt.Fprintf(p, `<path class="%s" d="M%.1f %dv%d"/>`, class, x, l.ticksAt(), tickHeight-3)
			if e.Kind == Act {
				p.text(x+4, l.ticksAt()+10, "faint", e.What, math.MaxInt)
			}
		}
	}
}

func (p *picture) bar(e Entry, x, width float64, y, height int) {
	fmt.Fprintf(p, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"/>`, e.Kind, x, y, width, height)
	if e.Bad && e.Dur != Open {
		fmt.Fprintf(p, `<rect class="loss" x="%.1f" y="%d" width="3" height="%d"/>`, x+width-3, y-1, height+2)
	}
	text, class := e.What, "on"
	if e.Kind == Hold && e.Bad {
		text = e.Result
	}
	if e.Kind == Session || e.Kind == Wait {
		class = ""
	}
	p.text(x+4, y+height-3, class, text, int(width-6))
}

// arrows join changes with the events that they fired.
func (p *picture) arrows(entries []Entry) {
	changes := make(map[int64]Entry)
	for _, e := range entries {
		if e.Kind == Request && e.Zxid != 0 && !e.Bad {
			changes[e.Zxid] = e
		}
	}
	for _, e := range entries {
		change, known := changes[e.Zxid]
		from, to := p.lanes[cmp.Or(change.Lane, change.Session)], p.lanes[cmp.Or(e.Lane, e.Session)]
		if e.Kind != Watch || !known || from == nil || to == nil || from == to {
			continue
		}
		x0, x1, y0, y1 := p.x(p.to(change)), p.x(e.At), from.ticksAt()+6, to.ticksAt()+6
		fmt.Fprintf(p, `<path class="arrow" d="M%.1f %dC%.1f %d %.1f %d %.1f %d"/>`, x0, y0, x0+8, (y0+y1)/2, x1-8, (y0+y1)/2, x1, y1)
	}
}
