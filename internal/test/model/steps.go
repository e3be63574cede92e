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
	Bad   string // why it is wrong, or ""
}

// adder adds a step. change turns a copy into the next state, and returns the violation in it.
type adder func(fault bool, change func(n *World) string, format string, args ...any)

// Steps are all things that can happen next.
func (w *World) Steps() (steps []Step) {
	add := func(fault bool, change func(n *World) string, format string, args ...any) {
		n := w.clone()
		bad := change(n)
		steps = append(steps, Step{fmt.Sprintf(format, args...), n, fault, bad})
	}
	for i := range w.ps {
		w.serverSteps(i, add)
		for k := range w.ps[i].gs {
			m := mover{w, i, k, add}
			m.queueSteps()
			m.holderSteps()
		}
		w.clientFaults(i, add)
	}
	w.operatorSteps(add)
	return steps
}

// fine is a change with which nothing is wrong.
func fine(change func(n *World)) func(n *World) string {
	return func(n *World) string { change(n); return "" }
}

func (w *World) room() bool { return w.behind() < w.cfg.Lag }

// serverSteps are the steps of a client's server, and of the leader for it.
func (w *World) serverSteps(i int, add adder) {
	p := &w.ps[i]
	if int(p.applied) < len(w.log) {
		add(false, fine(func(n *World) { n.apply(i) }), "client %d is notified of %c%d", i, w.log[p.applied].kind, w.log[p.applied].id)
	}
	if len(p.queue) > 0 && p.queue[0].at < 0 {
		switch r := p.queue[0]; r.kind {
		case 'C', 'R', 'D', 'X':
			if w.room() {
				add(false, fine(func(n *World) { n.propose(i) }), "the leader carries out %c of %d.%d", r.kind, i, r.by)
			}
		default:
			add(false, fine(func(n *World) { n.answerRead(i) }), "client %d gets the answer to %c of goroutine %d", i, r.kind, r.by)
		}
	}
	for k, session := range p.ended {
		if w.room() {
			add(false, fine(func(n *World) {
				n.ps[i].ended = slices.Delete(n.ps[i].ended, k, k+1)
				n.log = append(n.log, txn{kind: 'E', owner: int8(i), session: session})
			}), "the leader ends session %d of client %d", session, i)
		}
	}
}

// clientFaults are views that begin, connections that are lost and sessions that end.
func (w *World) clientFaults(i int, add adder) {
	p := &w.ps[i]
	if w.views > 0 && w.cfg.Clients[i].Views && p.view.phase == 0 {
		add(true, fine(func(n *World) {
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
			add(true, fine(func(n *World) { n.cut--; n.reconnect(i, to) }), "client %d connects to a server with %d of %d", i, to, len(w.log))
		}
	}
	if w.expire > 0 && slices.ContainsFunc(p.gs, func(g goroutine) bool { return g.node >= 0 }) {
		add(true, fine(func(n *World) { n.expire--; n.endSession(i) }), "client %d gives its session up", i)
	}
}

// operatorSteps are nodes that are deleted by hand, and parents that are reaped.
func (w *World) operatorSteps(add adder) {
	if !w.room() {
		return
	}
	all, next := w.nodes(int8(len(w.log)))
	if w.admin > 0 {
		for _, x := range all {
			add(true, fine(func(n *World) {
				n.admin--
				n.log = append(n.log, txn{kind: 'D', id: x.id, owner: -1, found: true})
			}), "an operator deletes node %d, number %d of client %d", x.id, x.num, x.owner)
		}
	}
	if w.reap > 0 && next >= 0 && len(all) == 0 {
		add(true, fine(func(n *World) { n.reap--; n.log = append(n.log, txn{kind: 'P', id: -1}) }), "the parent is reaped")
	}
}

func (g *goroutine) reset() {
	*g = goroutine{left: g.left, node: -1, num: -1, reader: -1, pred: -1, downs: g.downs}
	if g.left == 0 {
		g.pc = finished
	}
}

// mover adds the steps of goroutine k of client i.
type mover struct {
	w    *World
	i, k int
	add  adder
}

func (m mover) do(fault bool, what string, change func(n *World, p *process, g *goroutine) string) {
	m.add(fault, func(n *World) string { return change(n, &n.ps[m.i], &n.ps[m.i].gs[m.k]) }, "goroutine %d.%d %s", m.i, m.k, what)
}

func (m mover) remove(n *World, g *goroutine) {
	g.pc = deleting
	n.send(m.i, request{'D', int8(m.k), g.node, -1})
}

func (m mover) list(n *World, g *goroutine) {
	g.pc = listing
	m.ask(n, g, 'L', g.node)
}

// ask sends a read that the goroutine waits for, perhaps beside others.
func (m mover) ask(n *World, g *goroutine, kind byte, node int8) {
	g.asked++
	n.send(m.i, request{kind, int8(m.k), node, -1})
}

// watch watches the node ahead, unless it is watched already.
func (m mover) watch(n *World, g *goroutine, pred int8) {
	if pred != g.pred || !g.predWatched {
		g.pred, g.predWatched, g.predGone = pred, false, false
		m.ask(n, g, 'W', pred)
	}
}

// wait waits for a node. Our own is watched at the same time, in either order, if the wake-up may
// be enough.
func (m mover) wait(n *World, g *goroutine, pred int8, ownFirst bool) {
	g.pc = watchSet
	own := n.watchesOwn() && !g.ownWatched
	if own && ownFirst {
		m.ask(n, g, 'O', g.node)
	}
	m.watch(n, g, pred)
	if own && !ownFirst {
		m.ask(n, g, 'O', g.node)
	}
	if g.asked == 0 {
		g.pc = watching
	}
}

// lookAhead waits for the only one ahead, or for the one before that.
func (m mover) lookAhead(n *World, g *goroutine, ownFirst bool) {
	g.last = g.ahead == 1 || n.cfg.Weaken == Several
	pred := g.first
	if !g.last {
		pred = g.before
	}
	m.wait(n, g, pred, ownFirst)
}

// wake is the step after the deletion of the node ahead, or of the goroutine's own. If more nodes
// were ahead, the predecessor is watched while the list is read.
func (m mover) wake(n *World, g *goroutine, listFirst bool) string {
	switch {
	case g.predGone && n.isFirst(g):
		g.pc = granted
	case g.predGone && n.looksAhead() && !g.last:
		if listFirst {
			m.list(n, g)
		}
		m.watch(n, g, g.first)
		if !listFirst {
			m.list(n, g)
		}
	default:
		g.pc = created
	}
	return ""
}

// looksAhead reports whether nodes ahead can only be deleted, so that not each wake-up needs a
// list.
func (w *World) looksAhead() bool { return !w.cfg.Writers || w.cfg.Weaken == Overtaken }

// watchesOwn reports whether a waiter watches its own node.
func (w *World) watchesOwn() bool { return w.looksAhead() && w.cfg.Weaken != Unwatched }

// isFirst reports, after the node ahead was deleted, whether it was the last one and the
// goroutine's own node exists.
func (w *World) isFirst(g *goroutine) bool {
	return g.last && (g.ownWatched && !g.ownGone || w.cfg.Weaken == Unwatched)
}

// orders are the orders of two requests that are sent at once.
var orders = []string{"", ", the other way round"}

// queueSteps are the steps from the create to the hold.
func (m mover) queueSteps() {
	p := &m.w.ps[m.i]
	g := &p.gs[m.k]
	switch g.pc {
	case idle:
		m.do(false, "creates its node", func(n *World, p *process, g *goroutine) string {
			g.left--
			g.pc = creating
			n.send(m.i, request{'C', int8(m.k), -1, -1})
			return ""
		})
	case created:
		if p.view.phase == 0 || p.view.phase == 4 { // otherwise it waits for the view
			m.do(false, "looks", m.look)
		}
	case waiting:
		if p.view.find(g.pred) == nil || !g.inView {
			m.do(false, "wakes", func(n *World, p *process, g *goroutine) string {
				g.pc = created
				if n.cfg.Weaken == Memory && g.inView {
					g.pc, g.seen = granted, p.applied
				}
				return ""
			})
		}
	case granted:
		m.do(false, "holds", func(n *World, p *process, g *goroutine) string { return n.hold(m.i, g) })
	case listed:
		for n, order := range orders {
			first := n == 0
			m.do(false, "decides on the list"+order, func(n *World, p *process, g *goroutine) string { return m.decide(n, g, first) })
		}
	case watching:
		for n, order := range orders {
			first := n == 0
			switch {
			case g.predGone || g.ownGone:
				m.do(false, "wakes"+order, func(n *World, p *process, g *goroutine) string { return m.wake(n, g, first) })
			case !g.predWatched || m.w.watchesOwn() && !g.ownWatched:
				m.do(false, "watches again"+order, func(n *World, p *process, g *goroutine) string {
					m.wait(n, g, g.pred, first)
					return ""
				})
			}
		}
	}
	if m.w.giveUp > 0 && (g.pc == waiting || g.pc == watching) {
		m.do(true, "gives up", func(n *World, p *process, g *goroutine) string {
			n.giveUp--
			m.remove(n, g)
			return ""
		})
	}
}

// look asks the view, if that may be asked, and lists otherwise.
func (m mover) look(n *World, p *process, g *goroutine) string {
	if !n.admit(m.i, g) {
		m.list(n, g)
		return ""
	}
	if count, pred := p.view.ahead(g); count == 0 {
		g.pc, g.seen = granted, p.applied
	} else {
		g.pc, g.pred = waiting, pred
	}
	return ""
}

// decide acts on a list.
func (m mover) decide(n *World, g *goroutine, ownFirst bool) string {
	switch {
	case !g.own: // its own node was deleted: begin again
		g.left++
		m.remove(n, g)
	case g.ahead == 0:
		g.pc, g.seen = granted, g.listed
	case !n.looksAhead():
		g.last = false
		m.wait(n, g, g.first, ownFirst)
	default:
		m.lookAhead(n, g, ownFirst)
	}
	return ""
}

// holderSteps are the steps from the hold to its end.
func (m mover) holderSteps() {
	g := &m.w.ps[m.i].gs[m.k]
	release := func(n *World, p *process, g *goroutine) string { m.remove(n, g); return "" }
	switch g.pc {
	case holding:
		m.do(false, "releases", release)
		if m.w.cfg.Writers && g.downs > 0 {
			m.do(false, "becomes a reader", func(n *World, p *process, g *goroutine) string {
				g.downs--
				g.pc = becoming
				n.send(m.i, request{'R', int8(m.k), -1, -1})
				return ""
			})
		}
	case both:
		m.do(false, "releases the writer", release)
	case deleted:
		m.do(false, "is done", func(n *World, p *process, g *goroutine) string {
			reader := g.reader
			g.reset()
			if reader >= 0 {
				g.reader, g.pc = reader, reading
			}
			return ""
		})
	case reading:
		m.do(false, "releases the reader", func(n *World, p *process, g *goroutine) string {
			g.pc = leaving
			n.send(m.i, request{'X', int8(m.k), g.reader, -1})
			return ""
		})
	}
}

// admit reports whether the view may be asked for a goroutine's node: it has it, and it has seen as
// many children created as the node's number says.
func (w *World) admit(i int, g *goroutine) bool {
	v := &w.ps[i].view
	if v.phase != 4 {
		return false
	}
	c := v.find(g.node)
	switch {
	case c == nil:
		g.inView = w.cfg.Weaken == NoOwn
	case g.inView || c.count < 0 || c.count == g.num || w.cfg.Weaken == NoCount:
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

// ahead is the view's answer.
func (v *picture) ahead(g *goroutine) (n, nearest int8) {
	var all []node
	for _, c := range v.children {
		all = append(all, node{id: c.id, num: c.num})
	}
	n, nearest, _ = ahead(all, g.node, g.num)
	return n, nearest
}

// hold begins a hold, and returns the violation, if it is one.
func (w *World) hold(i int, g *goroutine) string {
	g.pc = holding
	if then, _ := w.nodes(g.seen); !has(then, g.node) {
		return fmt.Sprintf("client %d holds with number %d, and its node was gone when it looked", i, g.num)
	}
	all, _ := w.nodes(int8(len(w.log)))
	if !has(all, g.node) {
		return "" // an operator has deleted it, or the session has ended; word is on its way
	}
	if n, nearest, _ := ahead(all, g.node, g.num); n > 0 {
		return fmt.Sprintf("client %d holds with number %d, and node %d is ahead", i, g.num, nearest)
	}
	return ""
}
