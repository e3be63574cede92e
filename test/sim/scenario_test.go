package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// scenario is what a seed stands for.
type scenario struct {
	Seed          uint64
	Recipe        string
	Members       int
	Latency       time.Duration // of each request; 0: none
	MemberLatency time.Duration
	Lag           time.Duration
	SyncTimeout   time.Duration
	ReapEvery     time.Duration
	Length        time.Duration // of the time with faults
	Weather       weather
	Clients       []clientPlan
	Watchers      []watcherPlan
	Writers       int // of the tree that a cache follows
	Keepers       []keeperPlan
	Extra         string // a recipe that some use beside the contenders; empty: none
	Replacing     bool   // members are replaced, and all clients follow the configuration
	ClickHouse    string // the members are Keepers of this age; empty: ZooKeepers
	// scheme of the ACL of all nodes, which gives rights only to clients with credentials;
	// empty: all clients have rights
	ACL    string
	Faults []fault
}

// weather is how many faults there are.
type weather int

const (
	calmWeather weather = iota // up to 24 faults, some of which last
	stormy                     // up to 150 that are short
)

func (w weather) String() string { return [...]string{"calm", "stormy"}[w] }

// clientPlan is one client and who uses it.
type clientPlan struct {
	Session    time.Duration // that it asks for
	Connection time.Duration // for a connection
	Kind       clientKind
	Goroutines int
	Trusting   bool          // a suspended connection is no reason to give up a lock
	Retries    int           // of an operation
	MaxHold    time.Duration // 0: no limit
	Retention  time.Duration // 0: none
	DelayOne   int           // one callback of so many is delayed; 0: none is
	DelayMost  time.Duration
	Eager      bool // it pauses for less than a second between two locks
	StayMost   time.Duration
	Revocable  bool // holders watch for requests to release
	Loose      bool // foreign contenders: a create may be repeated in another session
}

type clientKind int

const (
	library clientKind = iota
	plain              // the protocol as the documentation of ZooKeeper has it
	hidden             // the same, with nodes that no other contender may read
)

func (k clientKind) String() string { return [...]string{"library", "plain", "hidden"}[k] }

// fault is a fault for a while.
type fault struct {
	At     time.Duration
	Kind   faultKind
	For    time.Duration
	Target int  // a member, a client or a node, whatever the kind is about
	Leader bool // it is about the leader instead
	N      int  // how many requests go by before
}

type faultKind int

const (
	pauseMember faultKind = iota
	stopMember
	cutOffMember
	lagMember
	cutConnections
	freezeMember
	freezeSession
	refuseConnections
	expireSession
	deleteNode
	reapContainers
	loseReply
	failRequest
	throttle
	jumpSequence
	isolateHolder
	cutOffHolder
	deleteHolder
	revokeHolder
	loseCreate
	revokeFar
	replaceLeader
	refuseCredentials
	replaceMember
	delayRequests
	faultKinds
)

var faultNames = [faultKinds]string{
	"member paused", "member stopped", "member cut off", "member lags", "connections cut", "link frozen", "session frozen",
	"connections refused", "session ended", "node deleted", "containers reaped", "reply lost", "request failed", "reads throttled",
	"sequence near its end", "holder isolated", "holder's follower cut off", "holder's node deleted", "holder asked to release",
	"create and session lost", "holder asked while out of reach", "holder's leader replaced",
	"credentials refused", "member replaced", "requests delayed",
}

func (k faultKind) String() string { return faultNames[k] }

func (f fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8v %s", f.At.Round(time.Millisecond), f.Kind)
	if f.For > 0 {
		fmt.Fprintf(&b, " for %v", f.For.Round(time.Millisecond))
	}
	if f.Leader {
		b.WriteString(" (the leader)")
	} else {
		fmt.Fprintf(&b, " (%d)", f.Target)
	}
	return b.String()
}

// weights are the relative frequencies of the kinds of faults. Some kinds occur only in special
// worlds.
var weights = [faultKinds]int{
	pauseMember: 4, stopMember: 4, cutOffMember: 5, lagMember: 4, cutConnections: 5, freezeMember: 3, freezeSession: 5, refuseConnections: 1,
	expireSession: 6, deleteNode: 5, reapContainers: 8, loseReply: 8, failRequest: 3, throttle: 1, jumpSequence: 1,
	isolateHolder: 2, cutOffHolder: 2, deleteHolder: 2, revokeHolder: 2, loseCreate: 2, revokeFar: 2, replaceLeader: 4,
}

// totalWeight is the sum of weights.
var totalWeight = func() (sum int) {
	for _, w := range weights {
		sum += w
	}
	return sum
}()

const maxClients = 5

// pick is a random one of a few.
func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// upTo is a random time, short ones more often than long ones.
func upTo(random *rand.Rand, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	most >>= random.IntN(6)
	return time.Duration(random.Int64N(int64(most) + 1))
}

// draw draws a scenario from a seed. only is the recipe, or empty for any.
func draw(seed uint64, only string) scenario {
	random := rand.New(rand.NewPCG(seed, 0))
	s := scenario{
		Seed:          seed,
		Recipe:        pick(random, recipeNames...),
		Members:       pick(random, 1, 3, 3, 3, 3, 5),
		Latency:       pick(random, 0, 0, time.Millisecond, 7*time.Millisecond),
		MemberLatency: pick(random, 0, 0, time.Millisecond, 20*time.Millisecond),
		Lag:           pick(random, 0, 2*time.Millisecond, 50*time.Millisecond, time.Second),
		SyncTimeout:   pick(random, 4*time.Second, 10*time.Second),
		ReapEvery:     pick(random, time.Second, 5*time.Second, time.Minute),
		Length:        pick(random, 20*time.Second, 40*time.Second),
	}
	if only != "" {
		s.Recipe = only
	}
	for range 2 + random.IntN(maxClients-1) {
		s.Clients = append(s.Clients, drawClient(random, s.Recipe))
	}
	if s.Clients[0].Kind != library {
		s.Clients[0].Kind = library
	}
	if random.IntN(4) == 0 {
		for range 1 + random.IntN(2) {
			s.Watchers = append(s.Watchers, drawWatcher(random, len(s.Clients)))
		}
	}
	if random.IntN(4) == 0 && *keepers {
		for i := range 2 + random.IntN(4) {
			s.Keepers = append(s.Keepers, drawKeeper(random, i, len(s.Clients)))
		}
	}
	if random.IntN(3) == 0 && *withExtras {
		s.Extra = pick(random, "election", "numbers", "barrier", "pool", "services")
	}
	s.Weather = pick(random, calmWeather, calmWeather, stormy)
	faults, longest := random.IntN(25), 20*time.Second
	if s.Weather == stormy {
		// Short faults, or no contender would acquire between two of them.
		s.Length = 40 * time.Second
		faults, longest = 40+random.IntN(111), pick(random, time.Second, 3*time.Second, 8*time.Second)
	}
	for range faults {
		s.Faults = append(s.Faults, drawFault(random, s.Length, longest))
	}
	if random.IntN(12) == 0 && *hiddenNodes {
		s.nearTheEnd(random)
	}
	s.guard(rand.New(rand.NewPCG(seed, 1)))
	s.replace(rand.New(rand.NewPCG(seed, 2)))
	s.write(rand.New(rand.NewPCG(seed, 3)))
	s.delay(rand.New(rand.NewPCG(seed, 4)))
	s.choose(rand.New(rand.NewPCG(seed, 5)))
	s.beside(rand.New(rand.NewPCG(seed, 6)), "shards")
	s.beside(rand.New(rand.NewPCG(seed, 7)), "jobs")
	if *extraOnly != "" {
		s.Extra = *extraOnly
	}
	if s.hides() {
		for i := range s.Watchers {
			s.Watchers[i].NoData = false // see cache.WithoutData
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b fault) int { return cmp.Compare(a.At, b.At) })
	return s
}

// hides reports whether there are nodes that only one client may read.
func (s *scenario) hides() bool {
	return slices.ContainsFunc(s.Clients, func(c clientPlan) bool { return c.Kind == hidden })
}

// sometime is a time for a fault.
func (s *scenario) sometime(random *rand.Rand) time.Duration {
	return time.Duration(random.Int64N(int64(s.Length)))
}

// guard turns one world of six into one in which only clients with credentials have rights, and
// servers refuse these at times.
func (s *scenario) guard(random *rand.Rand) {
	if random.IntN(6) > 0 || s.hides() {
		return
	}
	s.ACL = pick(random, "auth", "digest")
	for range 1 + random.IntN(6) {
		s.Faults = append(s.Faults, fault{
			At: s.sometime(random), Kind: refuseCredentials,
			For: upTo(random, 20*time.Second), Target: random.IntN(1000), N: random.IntN(2),
		}, fault{At: s.sometime(random), Kind: revokeFar})
	}
}

// replace turns one world of six with several members into one in which members are replaced.
func (s *scenario) replace(random *rand.Rand) {
	if random.IntN(6) > 0 || s.Members == 1 {
		return
	}
	s.Replacing = true
	for range 1 + random.IntN(5) {
		s.Faults = append(s.Faults, fault{
			At: s.sometime(random), Kind: replaceMember, Target: random.IntN(1000), Leader: random.IntN(3) == 0,
		})
	}
}

// delay delays single requests in worlds with a pool: a client then reads an older count than
// others use.
func (s *scenario) delay(random *rand.Rand) {
	if s.Extra != "pool" {
		return
	}
	for range 10 + random.IntN(20) {
		s.Faults = append(s.Faults, fault{
			At: s.sometime(random), Kind: delayRequests, For: upTo(random, 8*time.Second), Target: random.IntN(1000),
			N: random.IntN(len(delayed)),
		})
	}
}

// choose turns one world of ten into one of ClickHouse Keepers, whose configuration does not name
// the clients' ports.
func (s *scenario) choose(random *rand.Rand) {
	if random.IntN(10) == 0 && !s.Replacing {
		s.ClickHouse = pick(random, "old", "recent", "new", "newest")
	}
}

// beside adds a recipe to one world in five without another one.
func (s *scenario) beside(random *rand.Rand, recipe string) {
	if random.IntN(5) == 0 && s.Extra == "" && *withExtras {
		s.Extra = recipe
	}
}

// drawWith is draw of a world with an extra recipe.
func drawWith(seed uint64, only, extra string) scenario {
	s := draw(seed, only)
	s.Extra = extra
	return s
}

// has reports whether there are keepers, caches, another recipe of this name, or holders who may be
// asked to release, whatever is asked for.
func (s *scenario) has(what string) bool {
	switch what {
	case "keepers":
		return len(s.Keepers) > 0
	case "caches":
		return len(s.Watchers) > 0
	case "election", "numbers", "barrier", "pool", "services", "shards", "jobs":
		return s.Extra == what
	case "multilock":
		return s.Recipe == what
	case "replaced":
		return s.Replacing
	case "credentials":
		return s.ACL != ""
	case "clickhouse":
		return s.ClickHouse != ""
	case "revocable":
		return slices.ContainsFunc(s.Clients, func(c clientPlan) bool { return c.Kind == library && c.Revocable && s.Recipe != "leader" })
	}
	return true
}

// nearTheEnd turns it into a world in which the numbers of nodes reach their end several times,
// while unreadable nodes are created. Such nodes are known by the numbers only.
func (s *scenario) nearTheEnd(random *rand.Rand) {
	last := &s.Clients[len(s.Clients)-1]
	last.Kind, last.Eager, last.Goroutines = hidden, true, 3
	for range 4 + random.IntN(8) {
		s.Faults = append(s.Faults, fault{At: s.sometime(random), Kind: jumpSequence})
	}
}

func drawClient(random *rand.Rand, recipe string) clientPlan {
	c := clientPlan{
		Session:    pick(random, 4*time.Second, 4*time.Second, 6*time.Second, 10*time.Second, 30*time.Second),
		Connection: pick(random, time.Second, 5*time.Second, 15*time.Second),
		Kind:       drawKind(random),
		Goroutines: 1 + random.IntN(3),
		Trusting:   random.IntN(2) == 0,
		Retries:    pick(random, 3, 20),
		DelayOne:   pick(random, 0, 3, 20, 100),
		DelayMost:  pick(random, 10*time.Millisecond, 500*time.Millisecond, 10*time.Second),
		Eager:      random.IntN(4) > 0,
		StayMost:   pick(random, 10*time.Millisecond, 300*time.Millisecond, 5*time.Second),
	}
	if random.IntN(6) == 0 && recipe != "multilock" {
		// the first lock's time would end while it waits for the second
		c.MaxHold = 200 * time.Millisecond
	}
	_ = random.IntN(4) // keeps the worlds of the seeds that are on record
	c.Revocable, c.Loose = random.IntN(5) == 0, random.IntN(2) == 0
	if recipe == "mutex" && random.IntN(3) == 0 {
		c.Retention = time.Duration(1+random.IntN(10)) * 200 * time.Millisecond
		c.Goroutines++
		if random.IntN(2) == 0 {
			c.MaxHold = 200 * time.Millisecond // its end may meet a hand-off
		}
	}
	return c
}

func drawKind(random *rand.Rand) clientKind {
	switch n := random.IntN(12); {
	case n == 0 && *hiddenNodes:
		return hidden
	case n < 3:
		return plain
	}
	return library
}

func drawFault(random *rand.Rand, length, longest time.Duration) fault {
	n, kind := random.IntN(totalWeight), faultKind(0)
	for n >= weights[kind] {
		n -= weights[kind]
		kind++
	}
	f := fault{
		At:     time.Duration(random.Int64N(int64(length))),
		Kind:   kind,
		Target: random.IntN(1000),
		Leader: random.IntN(3) == 0,
		N:      random.IntN(4),
	}
	switch kind {
	case pauseMember, stopMember, cutOffMember, freezeMember, freezeSession, lagMember:
		f.For = upTo(random, longest)
	case refuseConnections, throttle:
		f.For = upTo(random, min(longest, 5*time.Second))
	}
	return f
}
