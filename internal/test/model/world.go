package model

import (
	"hash/maphash"
	"slices"
)

// Config is a world to explore.
type Config struct {
	Clients []Client
	Lag     int  // transactions that a server may be behind the leader, at most
	Writers bool // a read/write lock: writers may become readers

	// How often each of these may happen.
	Admin, Reap, Cut, Expire, GiveUp, Views int

	Weaken Weaken // breaks the rule
}

// Client is one process.
type Client struct {
	Goroutines int
	Acquires   int  // acquires per goroutine
	Views      bool // it may have a view; otherwise it lists
	Hidden     bool // other clients are not permitted to read its nodes
}

// Weaken leaves out one condition of the rule.
type Weaken string

// The conditions.
const (
	Nothing   Weaken = ""
	NoList    Weaken = "no first list"          // the view begins empty
	ListFirst Weaken = "the list is read first" // and then the watch is set
	NoCount   Weaken = "numbers are not counted"
	Memory    Weaken = "a memory decides" // a woken waiter holds, without looking again
	OldView   Weaken = "the view outlives its connection"
	NoOwn     Weaken = "the view outlives its connection, and need not have our node"
	Unread    Weaken = "the nodes of the first list are not read"
	Unwatched Weaken = "a waiter for the only one ahead does not watch its own node"
	Forgetful Weaken = "what an event reported may be unknown to the next server"
	Several   Weaken = "a waiter takes the one ahead for the only one"
	Overtaken Weaken = "writers that become readers let others wait for the only one ahead"
)

// Program counters of a goroutine.
const (
	idle int8 = iota
	creating
	created // the create is answered, and nothing done yet
	granted // it has seen that it holds, and does not know yet
	listing
	listed
	waiting  // for an event of the view
	watchSet // watches are being set
	watching
	holding
	becoming // a reader
	both
	deleting
	deleted
	reading
	leaving // the reader's node
	finished
)

var names = []string{"idle", "creating", "created", "granted", "listing", "listed", "waiting", "watches sent", "watching", "holding", "becoming a reader", "writer and reader", "deleting", "deleted", "reading", "leaving", "finished"}

// txn is a transaction of the leader.
type txn struct {
	kind                    byte // 'C' create, 'D' delete, 'P' the parent is deleted, 'E' a session ends
	id, num, owner, session int8
	reader, found, anew     bool
}

// request is a request of a client, in the order of its connection.
type request struct {
	kind byte // 'C' 'D', 'R' create a reader, 'X' delete it; 'L' list, 'O' watch our own node, 'W' watch one ahead; 'A' add the view's watch, 'B' list for it, 'G' read what was listed
	by   int8 // goroutine
	node int8
	at   int8 // index of the transaction, once there is one; -1
}

// goroutine is a contender.
type goroutine struct {
	pc            int8
	left          int8
	node, num     int8
	reader        int8
	inView        bool
	asked         int8 // the number of reads without an answer
	pred          int8 // whom it waits for
	predWatched   bool
	predGone      bool
	refused       bool // it is not permitted to read that node
	ahead         int8 // the number of nodes ahead in the list
	first, before int8 // the nearest of them, and the one before that
	own           bool // the list has our node
	last          bool // it waits for the only one ahead
	ownWatched    bool
	ownGone       bool // the watch has reported its deletion
	listed        int8 // transactions at the instant of the list
	seen          int8 // the same of what it holds by
	downs         int8
}

// child is a child in a view.
type child struct{ id, num, count int8 }

// picture is a client's view. phase: 0 none, 1 the watch is being set, 2 the list is read, 3 the
// nodes of the list are read, 4 it can be asked.
type picture struct {
	phase    int8
	exists   bool
	next     int8
	children []child
}

type process struct {
	applied, replied int8
	session          int8
	armed            bool // its server has the view's watch
	queue            []request
	view             picture
	ended            []int8 // sessions that the servers have not ended yet
	gs               []goroutine
}

// World is a state.
type World struct {
	cfg                                     *Config
	log                                     []txn
	nextID                                  int8
	counter                                 int8
	ps                                      []process
	admin, reap, cut, expire, giveUp, views int8
}

// New is the first state.
func New(cfg *Config) *World {
	w := &World{cfg: cfg, admin: int8(cfg.Admin), reap: int8(cfg.Reap), cut: int8(cfg.Cut), expire: int8(cfg.Expire), giveUp: int8(cfg.GiveUp), views: int8(cfg.Views)}
	for _, c := range cfg.Clients {
		p := process{view: picture{next: -1}}
		for range c.Goroutines {
			p.gs = append(p.gs, goroutine{left: int8(c.Acquires), node: -1, num: -1, reader: -1, pred: -1, downs: 1})
		}
		w.ps = append(w.ps, p)
	}
	return w
}

func (w *World) clone() *World {
	n := *w
	n.log = slices.Clone(w.log)
	n.ps = slices.Clone(w.ps)
	for i := range n.ps {
		p := &n.ps[i]
		p.queue = slices.Clone(p.queue)
		p.gs = slices.Clone(p.gs)
		p.ended = slices.Clone(p.ended)
		p.view.children = slices.Clone(p.view.children)
	}
	return &n
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

type key [2]uint64

// key identifies a state.
func (w *World) key() key {
	b := make([]byte, 0, 512)
	put := func(vs ...int8) {
		for _, v := range vs {
			b = append(b, byte(v))
		}
	}
	bit := func(vs ...bool) {
		for _, v := range vs {
			b = append(b, map[bool]byte{true: 1}[v])
		}
	}
	put(int8(len(w.log)), w.nextID, w.counter, w.admin, w.reap, w.cut, w.expire, w.giveUp, w.views)
	for _, x := range w.log {
		b = append(b, x.kind)
		put(x.id, x.num, x.owner, x.session)
		bit(x.reader, x.found, x.anew)
	}
	for _, p := range w.ps {
		put(p.applied, p.replied, p.session, int8(len(p.queue)), int8(len(p.ended)), p.view.phase, p.view.next, int8(len(p.view.children)))
		bit(p.armed, p.view.exists)
		put(p.ended...)
		for _, r := range p.queue {
			b = append(b, r.kind)
			put(r.by, r.node, r.at)
		}
		for _, c := range p.view.children {
			put(c.id, c.num, c.count)
		}
		for _, g := range p.gs {
			put(g.pc, g.left, g.node, g.num, g.reader, g.asked, g.pred, g.ahead, g.first, g.before, g.listed, g.seen, g.downs)
			bit(g.inView, g.predWatched, g.predGone, g.refused, g.own, g.last, g.ownWatched, g.ownGone)
		}
	}
	return key{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)}
}

// node is a node that exists.
type node struct{ id, num, owner, session int8 }

// nodes are those of the first n transactions, with the number of the next child; next is -1 if
// there is no parent.
func (w *World) nodes(n int8) (all []node, next int8) {
	next = -1
	for _, x := range w.log[:n] {
		switch x.kind {
		case 'C':
			if x.anew {
				next = 0
			}
			next++
			all = append(all, node{x.id, x.num, x.owner, x.session})
		case 'D':
			all = slices.DeleteFunc(all, func(n node) bool { return n.id == x.id })
		case 'P':
			next = -1
		case 'E':
			all = slices.DeleteFunc(all, func(n node) bool { return n.owner == x.owner && n.session == x.session })
		}
	}
	return all, next
}

func has(all []node, id int8) bool {
	return slices.ContainsFunc(all, func(n node) bool { return n.id == id })
}

// ahead counts the nodes ahead of a number, and returns the nearest and the one before that.
func ahead(all []node, own, num int8) (n, nearest, before int8) {
	nearest, before = -1, -1
	best := int8(-1)
	for _, x := range all { // in the order of their creation, so of their numbers, but for readers
		if x.id == own || x.num >= num {
			continue
		}
		n++
		if x.num >= best {
			best, nearest, before = x.num, x.id, nearest
		}
	}
	return n, nearest, before
}
