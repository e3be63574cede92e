package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/zktest"
)

// keeperPlan is a client that keeps a node.
type keeperPlan struct {
	Client     int
	Name       string // below keptPath; several may want the same
	Member     bool   // of a group: node.Join
	Protected  bool
	Sequential bool // with Protected only
	Replace    bool // another's node is replaced
}

// rival is the name that several may want.
const rival = "rival"

func drawKeeper(random *rand.Rand, i, clients int) keeperPlan {
	k := keeperPlan{Client: random.IntN(clients), Name: fmt.Sprintf("n%d-", i)}
	switch random.IntN(4) {
	case 0:
		k.Name = rival
	case 1, 2:
		k.Member = true
	default:
		k.Protected, k.Sequential = random.IntN(2) == 0, random.IntN(2) == 0
		k.Protected = k.Protected || k.Sequential
	}
	k.Replace = k.Name != rival && random.IntN(3) == 0
	return k
}

// kept is a node that is kept, or a membership.
type kept interface {
	Present() (bool, <-chan struct{})
	Set(ctx context.Context, data []byte) error
	Close() error
}

// keeper keeps nodes, one after the other, and checks what node promises.
type keeper struct {
	*world
	keeperPlan
	user    *user
	name    string
	random  *rand.Rand
	rivals  *monitor // of the keepers of the same node
	current kept
	node    *node.Node   // current, if it is one
	member  *node.Member // the same
	data    []byte       // that were set last
	version int
}

func (w *world) newKeeper(i int, plan keeperPlan) *keeper {
	plan.Client %= len(w.clients) // there are fewer in a scenario that was cut down
	return &keeper{
		world: w, keeperPlan: plan, user: w.clients[plan.Client], name: fmt.Sprintf("keeper %d.%d", plan.Client, i),
		random: rand.New(rand.NewPCG(w.Seed, uint64(i+1)<<40)), rivals: w.rivals,
	}
}

// next is what the node is to hold from now on.
func (k *keeper) next() []byte {
	k.version++
	k.data = []byte(fmt.Sprintf("%s %d", k.name, k.version))
	return k.data
}

// keep begins to keep a node.
func (k *keeper) keep(ctx context.Context) (err error) {
	var opts []node.Option
	if k.Replace {
		opts = append(opts, node.WithIfTaken(node.Replace))
	}
	if k.Protected {
		opts = append(opts, node.WithProtection())
	}
	if k.Sequential {
		opts = append(opts, node.WithSequence())
	}
	k.node, k.member, k.current = nil, nil, nil
	if k.Member {
		if k.member, err = node.Join(ctx, k.user.client, groupPath, k.Name, k.next(), opts...); err == nil {
			k.current = k.member
		}
	} else if k.node, err = node.Keep(ctx, k.user.client, framework.Join(keptPath, k.Name), k.next(), opts...); err == nil {
		k.current = k.node
	}
	return err
}

// run keeps a node again and again. It returns in peace: then the node exists and stays, unless
// others want it as well.
func (k *keeper) run() {
	for !k.calm.Load() {
		if k.keepFor(upTo(k.random, 40*time.Second), upTo(k.random, 30*time.Second)) && k.calm.Load() && k.Name != rival {
			return // it is still kept
		}
		rest(upTo(k.random, 3*time.Second), nil, k.over)
	}
	if !k.keepFor(long, 100*time.Millisecond) {
		k.monitor.fail("stuck", "%s cannot keep %s after all is well", k.name, k.Name)
	}
}

// stop is what ends a pause while a node is kept: rivals keep it also when all is well.
func (k *keeper) stop() <-chan struct{} {
	if k.Name == rival && k.calm.Load() {
		return nil
	}
	return k.over
}

// keepFor keeps a node for a while, and closes it except in peace. It reports whether the node
// existed at all.
func (k *keeper) keepFor(wait, stay time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := k.keep(ctx); err != nil {
		k.monitor.count("keep failed: " + reason(err))
		return false
	}
	k.monitor.count("nodes kept")
	k.monitor.note("%s keeps %s", k.name, k.Name)
	done := make(chan struct{})
	if k.Name == rival {
		go k.claim(k.current, done) // ends with done
	}
	defer close(done)
	for end := time.Now().Add(stay); time.Now().Before(end) && (k.Name == rival || !k.calm.Load()); {
		_, changed := k.current.Present()
		rest(min(upTo(k.random, 3*time.Second)+time.Millisecond, time.Until(end)), changed, k.stop())
		// often, so that some happen while the node is being recreated
		if there, _ := k.current.Present(); !there {
			k.set(upTo(k.random, 300*time.Millisecond) + time.Millisecond)
		} else if k.random.IntN(3) == 0 {
			k.set(5 * time.Second)
		}
		k.check(false)
		k.checkMember()
	}
	if k.calm.Load() && k.Name != rival {
		return true
	}
	k.close()
	return true
}

func (k *keeper) set(wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := k.current.Set(ctx, k.next()); err != nil {
		k.monitor.count("sets of a kept node that failed") // and are repeated later
		return
	}
	k.monitor.count("sets of a kept node")
	k.check(true)
}

func (k *keeper) close() {
	if k.current == nil {
		return
	}
	if err := k.current.Close(); errors.Is(err, context.DeadlineExceeded) {
		k.monitor.count("closes of a kept node that left its deletion to the client")
	} else if err != nil {
		k.monitor.fail("kept node", "%s: %v", k.name, err)
	}
	k.monitor.note("%s has closed %s", k.name, k.Name)
	k.current = nil
}

// claim notifies the monitor of the rivals whenever the node appears or disappears, until done.
func (k *keeper) claim(n kept, done <-chan struct{}) {
	for term := (*held)(nil); ; {
		there, changed := n.Present()
		switch {
		case there && term == nil:
			term = &held{
				who: k.name, owner: int(k.owners.Add(1)), node: framework.Join(keptPath, rival), timeout: k.user.Session, ctx: context.Background(),
				session: k.user.session(),
				believe: func() bool { there, _ := n.Present(); return there },
			}
			k.rivals.enter(term)
			k.monitor.count("terms of rivals for a node")
		case !there && term != nil:
			// Or it is believed in again in the next term, in a session that is another one.
			k.rivals.leave(term)
			term = nil
		}
		select {
		case <-changed:
		case <-done:
			return
		}
	}
}

// path is where the node is kept.
func (k *keeper) path() string {
	if k.node != nil {
		return k.node.Path()
	}
	return framework.Join(groupPath, k.Name)
}

// check requires that a node that is reported as present exists, and belongs to the live session.
// If a Set has just returned, it also has that data, or gets it soon. All members lag, also the
// leader, so one of them must have it; but the one that has carried out the Set may have been
// restarted while the reply was in flight.
func (k *keeper) check(set bool) {
	there, changed := k.current.Present()
	if !there {
		return
	}
	path, lives := k.path(), k.user.session() // 0 if it is not connected
	var seen []string
	has := func(data bool) bool {
		seen = nil
		return slices.ContainsFunc(k.cluster.Members(), func(m *zktest.Server) bool {
			stat, err := m.Stat(path)
			now, _ := m.Get(path)
			seen = append(seen, fmt.Sprintf("%q of session %#x (%v)", now, stat.EphemeralOwner, err))
			return err == nil && (lives == 0 || stat.EphemeralOwner == lives) && (!data || string(now) == string(k.data))
		})
	}
	found := has(false)
	if !found {
		// only a leader that was removed since had applied it: the others have it in their logs
		k.leader()
		rest(k.Lag+k.MemberLatency, changed, k.stop())
		found = has(false)
	}
	for range 30 {
		if !found || !set || has(true) {
			break
		}
		rest(time.Second, changed, k.stop())
	}
	found = found && (!set || has(true))
	select {
	case <-changed:
		return
	case <-k.stop():
		return
	default:
	}
	k.monitor.count("kept nodes looked at")
	if !found && !k.user.wasEnded(k.user.Session+10*time.Second) {
		k.monitor.fail("kept node", "%s: %s seems to be there, in session %#x, with %q; the members have %v", k.name, path, lives, k.data, seen)
	}
}

// checkMember requires that a member is in its own list exactly while its node exists.
func (k *keeper) checkMember() {
	if k.member == nil {
		return
	}
	there, changed := k.member.Present()
	_, seen := k.member.Members()[k.Name]
	select {
	case <-changed:
	default:
		if there != seen {
			k.monitor.fail("member", "%s: present %v, and among the members %v", k.name, there, seen)
		}
	}
}

const (
	keptPath  = "/sim/kept"
	groupPath = "/sim/kept/group"
)

// checkKept requires that each kept node exists once with the data that were set last, that there
// are no others, and that members know each other.
func (w *world) checkKept() {
	w.eventually("kept node", w.keptWrong)
	for _, k := range w.keepers {
		k.close()
	}
	w.eventually("kept node after the end", w.keptWrong)
	w.rivals.mu.Lock()
	defer w.rivals.mu.Unlock()
	for _, wrong := range w.rivals.wrong {
		w.monitor.fail("two keep a node", "%s", wrong)
	}
}

// eventually repeats a check for a minute, or until it returns no complaint. The last complaint is
// the failure of the world.
func (w *world) eventually(kind string, check func() string) {
	wrong := ""
	for range 60 {
		if wrong = check(); wrong == "" {
			return
		}
		time.Sleep(time.Second) // virtual time
	}
	w.monitor.fail(kind, "%s", wrong)
}

// keptWrong describes a kept node in a wrong state; "": none.
func (w *world) keptWrong() string {
	there, members := make(map[string]zktest.Node), make(map[string]string)
	for _, n := range w.leader().Dump() {
		if n.Owner != 0 && strings.HasPrefix(n.Path, keptPath) {
			there[n.Path] = n
			if id, ok := strings.CutPrefix(n.Path, groupPath+"/"); ok {
				members[id] = string(n.Data)
			}
		}
	}
	for _, k := range w.keepers {
		if k.current == nil {
			continue
		}
		path := k.path()
		n, ok := there[path]
		if present, _ := k.current.Present(); !present || !ok || string(n.Data) != string(k.data) {
			return fmt.Sprintf("%s: %s is there: %v, as it thinks: %v, with %q, not %q", k.name, path, ok, present, n.Data, k.data)
		}
		delete(there, path)
		if k.member == nil {
			continue
		}
		seen := make(map[string]string)
		for id, data := range k.member.Members() {
			seen[id] = string(data)
		}
		if !maps.Equal(seen, members) {
			return fmt.Sprintf("%s sees the members %v, not %v", k.name, seen, members)
		}
	}
	if len(there) > 0 {
		return fmt.Sprintf("not kept by any client: %v", slices.Sorted(maps.Keys(there)))
	}
	return ""
}
