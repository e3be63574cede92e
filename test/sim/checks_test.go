package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// conclude checks what must be so at the end, while all clients are connected.
func (w *world) conclude(watchers []*watcher) {
	for _, x := range watchers {
		x.check()
	}
	w.checkKept()
	if w.extra != nil {
		w.extra.conclude()
	}
	w.checkOthers()
	w.checkOrphans()
	w.checkVanished()
	w.monitor.conclude(w.counterValue())
}

// checkOrphans requires that no node of released contenders stays while their clients live. Writers
// leave their nodes.
func (w *world) checkOrphans() {
	var left []string
	for range 60 {
		left = left[:0]
		for _, n := range w.leader().Dump() {
			if n.Owner != 0 && !strings.HasPrefix(n.Path, treePath) {
				left = append(left, fmt.Sprintf("%s of session %#x", n.Path, n.Owner))
			}
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(time.Second) // virtual time
	}
	w.monitor.fail("orphan", "%s", strings.Join(left, ", "))
}

// checkVanished requires that no node was deleted while its session lived, except by hand.
func (w *world) checkVanished() {
	lives := make(map[int64]bool)
	for _, s := range w.leader().Sessions() {
		lives[s.ID] = true
	}
	w.monitor.vanished(lives)
}

func (w *world) counterValue() int {
	data, err := w.leader().Get(counter)
	if err != nil {
		w.monitor.fail("simulation", "%v", err)
		return 0
	}
	value, err := strconv.Atoi(string(data))
	if err != nil {
		w.monitor.fail("simulation", "%v", err)
	}
	return value
}
