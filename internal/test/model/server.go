package model

import "slices"

// The ensemble: transactions, servers that apply them, and what clients are notified of.

// propose makes the leader carry out the write at the head of a client's queue.
func (w *World) propose(i int) {
	p := &w.ps[i]
	r := &p.queue[0]
	r.at = int8(len(w.log))
	all, next := w.nodes(int8(len(w.log)))
	x := txn{kind: 'D', id: r.node, owner: int8(i), session: p.session, found: has(all, r.node)}
	if r.kind == 'C' || r.kind == 'R' {
		x = txn{kind: 'C', id: w.nextID, num: max(next, 0), owner: int8(i), session: p.session, anew: next < 0}
		if r.kind == 'R' {
			x.num, x.reader = p.gs[r.by].num, true
		}
		if r.kind == 'R' && !has(all, p.gs[r.by].node) {
			// The writer is deleted. The code sees that and withdraws the reader before another
			// client holds by it.
			x = txn{kind: 'N', id: -1, owner: int8(i), session: p.session}
			w.log = append(w.log, x)
			return
		}
		w.nextID++
	}
	w.log = append(w.log, x)
}

// apply makes a client's server apply one transaction. The client hears of it in this order:
// events, then the answer.
func (w *World) apply(i int) {
	p := &w.ps[i]
	x := w.log[p.applied]
	before, _ := w.nodes(p.applied)
	p.applied++
	after, _ := w.nodes(p.applied)
	if p.armed && p.view.phase > 0 {
		w.events(i, x, before)
	}
	for k := range p.gs {
		g := &p.gs[k]
		if g.predWatched && has(before, g.pred) && !has(after, g.pred) {
			g.predGone, g.seen = true, p.applied
			w.noted(p)
		}
		if g.ownWatched && has(before, g.node) && !has(after, g.node) {
			g.ownGone = true
			w.noted(p)
		}
	}
	if len(p.queue) > 0 && p.queue[0].at == p.applied-1 {
		w.answerWrite(i, x)
	}
}

// noted is for a client that got an event: on its next connection it reads nothing older.
func (w *World) noted(p *process) {
	if w.cfg.Weaken != Forgetful {
		p.replied = p.applied
	}
}

// events notifies a view. Before its first list it does not listen.
func (w *World) events(i int, x txn, before []node) {
	p := &w.ps[i]
	v := &p.view
	if v.phase < 3 {
		return
	}
	switch x.kind {
	case 'C':
		if x.anew {
			if v.exists {
				w.endView(i)
				return
			}
			v.exists, v.next = true, 0
		}
		if w.secret(i, x.owner) {
			return
		}
		v.children = append(v.children, child{x.id, x.num, v.next})
		v.next++
	case 'D':
		for _, n := range before {
			if n.id == x.id && !w.secret(i, n.owner) {
				v.drop(x.id)
			}
		}
	case 'P':
		if len(v.children) > 0 {
			w.endView(i)
			return
		}
		v.exists, v.next = false, -1
	case 'E':
		for _, n := range before {
			if n.owner == x.owner && n.session == x.session && !w.secret(i, n.owner) {
				v.drop(n.id)
			}
		}
	}
}

// secret reports whether client i is not permitted to read the nodes of owner. Then i is notified
// neither of their creation nor of their deletion, and cannot watch them.
func (w *World) secret(i int, owner int8) bool {
	return owner != int8(i) && w.cfg.Clients[owner].Hidden
}

// owner is whose node it is.
func (w *World) owner(id int8) int8 {
	return w.log[slices.IndexFunc(w.log, func(x txn) bool { return x.kind == 'C' && x.id == id })].owner
}

func (v *picture) drop(id int8) {
	v.children = slices.DeleteFunc(v.children, func(c child) bool { return c.id == id })
}

func (w *World) endView(i int) {
	p := &w.ps[i]
	p.armed = false
	p.view = picture{next: -1}
	p.queue = slices.DeleteFunc(p.queue, func(r request) bool { return r.kind == 'A' || r.kind == 'B' || r.kind == 'G' })
	for k := range p.gs {
		p.gs[k].inView = false
	}
}

func (w *World) answerWrite(i int, x txn) {
	p := &w.ps[i]
	r := p.queue[0]
	p.queue = p.queue[1:]
	p.replied = p.applied
	g := &p.gs[r.by]
	switch r.kind {
	case 'C':
		g.node, g.num, g.pc = x.id, x.num, created
	case 'R':
		g.reader, g.pc = x.id, both
	case 'D':
		g.pc = deleted
	case 'X':
		g.reader = -1
		g.reset()
	}
}

// answerRead answers the read at the head of a client's queue from what its server has applied.
func (w *World) answerRead(i int) {
	p := &w.ps[i]
	r := p.queue[0]
	p.queue = p.queue[1:]
	p.replied = p.applied
	all, next := w.nodes(p.applied)
	switch r.kind {
	case 'A':
		p.armed = true
		if p.view.phase == 1 {
			p.view.phase = 2
			w.base(i)
		}
		return
	case 'B':
		v := &p.view
		v.exists, v.next, v.children = next >= 0, next, nil
		for _, n := range all {
			v.children = append(v.children, child{n.id, n.num, -1})
		}
		v.phase = 3
		if w.cfg.Weaken == ListFirst {
			w.send(i, request{'A', -1, -1, -1})
		}
		w.send(i, request{'G', -1, -1, -1})
		return
	case 'G':
		v := &p.view
		v.phase = 4
		if w.cfg.Weaken != Unread && slices.ContainsFunc(v.children, func(c child) bool { return c.count < 0 && w.secret(i, w.owner(c.id)) }) {
			w.endView(i) // the read is refused, or the node is gone and its end was not reported
		}
		return
	}
	g := &p.gs[r.by]
	switch r.kind {
	case 'L':
		g.own = has(all, g.node)
		g.ahead, g.first, g.before = ahead(all, g.node, g.num)
		g.listed = p.applied
	case 'O':
		g.ownWatched = has(all, g.node)
		g.ownGone = !g.ownWatched
	case 'W':
		k := slices.IndexFunc(all, func(n node) bool { return n.id == r.node })
		switch {
		case k < 0:
			g.predGone, g.seen = true, p.applied
		case w.secret(i, all[k].owner): // the read is refused, and the acquire fails
			g.refused = true
		default:
			g.predWatched = true
		}
	}
	if g.asked--; g.asked > 0 {
		return
	}
	switch {
	case g.pc == listing:
		g.pc, g.refused = listed, false // a refusal matters when that node is waited for
	case g.refused:
		g.pc = deleting
		w.send(i, request{'D', r.by, g.node, -1})
	default:
		g.pc = watching
	}
}

// base is what follows when the view's watch is set.
func (w *World) base(i int) {
	if w.cfg.Weaken == NoList {
		w.ps[i].view = picture{phase: 4, exists: true, next: -1}
		return
	}
	w.send(i, request{'B', -1, -1, -1})
}

func (w *World) send(i int, r request) { w.ps[i].queue = append(w.ps[i].queue, r) }

// reconnect is a lost connection. The next server has at least what the client has seen; requests
// are sent again.
func (w *World) reconnect(i int, to int8) {
	p := &w.ps[i]
	if w.cfg.Weaken != OldView && w.cfg.Weaken != NoOwn {
		w.endView(i)
	}
	p.armed = false
	for k := range p.gs {
		p.gs[k].predWatched, p.gs[k].ownWatched = false, false
	}
	p.applied, p.replied = to, to
	if len(p.queue) > 0 && p.queue[0].at >= 0 && p.queue[0].at < to {
		w.answerWrite(i, w.log[p.queue[0].at])
	}
}

// endSession is the client's own deadline: it passes before the servers end the session.
func (w *World) endSession(i int) {
	p := &w.ps[i]
	p.ended = append(p.ended, p.session)
	p.session++
	p.queue = nil
	w.endView(i)
	for k := range p.gs {
		if g := &p.gs[k]; g.pc != idle && g.pc != finished {
			g.reset()
		}
	}
}

func (w *World) behind() int {
	most := 0
	for _, p := range w.ps {
		most = max(most, len(w.log)-int(p.applied))
	}
	return most
}
