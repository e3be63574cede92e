package model

import (
	"fmt"
	"slices"
)

// Step is one thing that can happen.
type Step struct {
	Name  string
	To    *World
	Fault bool   // it need not happen
	Bad   string // what is wrong with it
}

// Steps are all things that can happen next.
func (w *World) Steps() (steps []Step) {
	add := func(fault bool, f func(n *World) string, format string, args ...any) {
		n := w.clone()
		bad := f(n)
		steps = append(steps, Step{fmt.Sprintf(format, args...), n, fault, bad})
	}
	plain := func(f func(n *World)) func(n *World) string {
		return func(n *World) string { f(n); return "" }
	}
	room := w.behind() < w.cfg.Lag
	for i := range w.ps {
		p := &w.ps[i]
		if int(p.applied) < len(w.log) {
			add(false, plain(func(n *World) { n.apply(i) }), "client %d is told of %c%d", i, w.log[p.applied].kind, w.log[p.applied].id)
		}
		if len(p.queue) > 0 && p.queue[0].at < 0 {
			switch r := p.queue[0]; r.kind {
			case 'C', 'R', 'D', 'X':
				if room {
					add(false, plain(func(n *World) { n.propose(i) }), "the leader carries out %c of %d.%d", r.kind, i, r.by)
				}
			default:
				add(false, plain(func(n *World) { n.answerRead(i) }), "client %d gets the answer to %c of goroutine %d", i, r.kind, r.by)
			}
		}
		for k := range p.gs {
			w.goroutineSteps(i, k, add)
		}
		for k, session := range p.ended {
			if room {
				add(false, plain(func(n *World) {
					n.ps[i].ended = slices.Delete(n.ps[i].ended, k, k+1)
					n.log = append(n.log, txn{kind: 'E', owner: int8(i), session: session})
				}), "the leader ends session %d of client %d", session, i)
			}
		}
		if w.views > 0 && w.cfg.Clients[i].Views && p.view.phase == 0 {
			add(true, plain(func(n *World) {
				n.views--
				n.ps[i].view.phase = 1
				kind := byte('A')
				if w.cfg.Weaken == ListFirst {
					kind = 'B'
				}
				n.send(i, request{kind, -1, -1, -1})
			}), "client %d begins a view", i)
		}
		if w.cut > 0 {
			for to := p.replied; int(to) <= len(w.log); to++ {
				add(true, plain(func(n *World) { n.cut--; n.reconnect(i, to) }), "client %d connects to a server with %d of %d", i, to, len(w.log))
			}
		}
		if w.expire > 0 && slices.ContainsFunc(p.gs, func(g goroutine) bool { return g.node >= 0 }) {
			add(true, plain(func(n *World) { n.expire--; n.endSession(i) }), "client %d gives its session up", i)
		}
	}
	if !room {
		return steps
	}
	all, next := w.nodes(int8(len(w.log)))
	if w.admin > 0 {
		for _, x := range all {
			add(true, plain(func(n *World) {
				n.admin--
				n.log = append(n.log, txn{kind: 'D', id: x.id, owner: -1, found: true})
			}), "an operator deletes node %d, number %d of client %d", x.id, x.num, x.owner)
		}
	}
	if w.reap > 0 && next >= 0 && len(all) == 0 {
		add(true, plain(func(n *World) { n.reap--; n.log = append(n.log, txn{kind: 'P', id: -1}) }), "the parent is reaped")
	}
	return steps
}

func (g *goroutine) reset() {
	*g = goroutine{left: g.left, node: -1, num: -1, reader: -1, pred: -1, downs: g.downs}
	if g.left == 0 {
		g.pc = finished
	}
}

type adder func(fault bool, f func(n *World) string, format string, args ...any)

func (w *World) goroutineSteps(i, k int, add adder) {
	g := &w.ps[i].gs[k]
	do := func(fault bool, what string, f func(n *World, p *process, g *goroutine) string) {
		add(fault, func(n *World) string { return f(n, &n.ps[i], &n.ps[i].gs[k]) }, "goroutine %d.%d %s", i, k, what)
	}
	remove := func(n *World, g *goroutine) {
		g.pc = deleting
		n.send(i, request{'D', int8(k), g.node, -1})
	}
	list := func(n *World, g *goroutine) {
		g.pc = listing
		n.send(i, request{'L', int8(k), g.node, -1})
	}
	watch := func(n *World, g *goroutine, pred int8) {
		g.pc, g.pred = watchSet, pred
		n.send(i, request{'W', int8(k), pred, -1})
	}
	switch g.pc {
	case idle:
		do(false, "creates its node", func(n *World, p *process, g *goroutine) string {
			g.left--
			g.pc = creating
			n.send(i, request{'C', int8(k), -1, -1})
			return ""
		})
	case created:
		if phase := w.ps[i].view.phase; phase == 1 || phase == 2 {
			return // it waits for the view
		}
		do(false, "looks", func(n *World, p *process, g *goroutine) string {
			if !n.admit(i, g) {
				list(n, g)
				return ""
			}
			count, pred, seen := p.view.ahead(g)
			switch {
			case count == 0:
				g.pc = granted
			case seen:
				g.pc, g.pred = waiting, pred
			default:
				watch(n, g, pred)
			}
			return ""
		})
	case waiting:
		if c := w.ps[i].view.find(g.pred); g.inView && c != nil {
			break
		}
		do(false, "wakes", func(n *World, p *process, g *goroutine) string {
			g.pc = created
			if n.cfg.Weaken == Memory && g.inView {
				g.pc = granted
			}
			return ""
		})
	case granted:
		do(false, "holds", func(n *World, p *process, g *goroutine) string { return n.hold(i, g) })
	case listed:
		do(false, "decides on the list", func(n *World, p *process, g *goroutine) string {
			switch {
			case !g.own: // our node is gone: begin again
				g.left++
				remove(n, g)
			case g.ahead == 0:
				g.pc = granted
			default:
				watch(n, g, g.first)
			}
			return ""
		})
	case watching:
		if g.predGone {
			do(false, "wakes", func(n *World, p *process, g *goroutine) string {
				g.pc = created
				return ""
			})
		} else if g.watchLost {
			do(false, "watches again", func(n *World, p *process, g *goroutine) string { watch(n, g, g.pred); return "" })
		}
	case holding:
		do(false, "releases", func(n *World, p *process, g *goroutine) string { remove(n, g); return "" })
		if w.cfg.Writers && g.downs > 0 {
			do(false, "becomes a reader", func(n *World, p *process, g *goroutine) string {
				g.downs--
				g.pc = becoming
				n.send(i, request{'R', int8(k), -1, -1})
				return ""
			})
		}
	case both:
		do(false, "releases the writer", func(n *World, p *process, g *goroutine) string { remove(n, g); return "" })
	case deleted:
		do(false, "is done", func(n *World, p *process, g *goroutine) string {
			reader := g.reader
			g.reset()
			if reader >= 0 {
				g.reader, g.pc = reader, reading
			}
			return ""
		})
	case reading:
		do(false, "releases the reader", func(n *World, p *process, g *goroutine) string {
			g.pc = leaving
			n.send(i, request{'X', int8(k), g.reader, -1})
			return ""
		})
	}
	if w.giveUp > 0 && (g.pc == waiting || g.pc == watching) {
		do(true, "gives up", func(n *World, p *process, g *goroutine) string {
			n.giveUp--
			remove(n, g)
			return ""
		})
	}
}

// admit reports whether the view may be asked for a goroutine's node: it has it, and it has seen as many
// children created as the node's number says.
func (w *World) admit(i int, g *goroutine) bool {
	v := &w.ps[i].view
	if v.phase != 3 {
		return false
	}
	c := v.find(g.node)
	switch {
	case w.cfg.Weaken == OldView:
		g.inView = true
	case c == nil:
		g.inView = false
	case g.inView || c.count < 0 || c.count == g.num || w.cfg.Weaken != Nothing && w.cfg.Weaken != Memory:
		g.inView = true
	case c.count < g.num:
		w.endView(i)
	}
	return g.inView
}

func (v *picture) find(id int8) *child {
	for i := range v.children {
		if v.children[i].id == id {
			return &v.children[i]
		}
	}
	return nil
}

// ahead is the view's answer; seen says that the nearest was created while the view was there.
func (v *picture) ahead(g *goroutine) (n, nearest int8, seen bool) {
	var all []node
	for _, c := range v.children {
		all = append(all, node{id: c.id, num: c.num})
	}
	n, nearest = ahead(all, g.node, g.num)
	if c := v.find(nearest); c != nil {
		seen = c.count >= 0
	}
	return n, nearest, seen
}

// hold begins a hold, and returns what is wrong with it.
func (w *World) hold(i int, g *goroutine) string {
	g.pc = holding
	all, _ := w.nodes(int8(len(w.log)))
	if !has(all, g.node) {
		return "" // an operator has deleted it, or the session has ended; word is on its way
	}
	if n, nearest := ahead(all, g.node, g.num); n > 0 {
		return fmt.Sprintf("client %d holds with number %d, and node %d is ahead", i, g.num, nearest)
	}
	return ""
}
