// Handover runs a long batch job that releases its lock when a more urgent task needs it.
//
// The batch holds a revocable lock and works through its items. The urgent task asks the holder to
// release. The batch finishes its current item, saves its progress, releases, and queues again.
// Later it continues. If a batch does not react in time, its node is deleted. Then its guarded
// writes fail, and it starts again from the saved progress.
//
//	go run ./examples/handover
//	go run ./examples/handover -servers host:port,... -items 100 -urgent 5
//
// It exits with 1 if an item was done twice or left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/examples/internal/demo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/revocable"
)

func main() {
	plant := plant{out: os.Stdout}
	servers := demo.Servers()
	flag.IntVar(&plant.items, "items", 60, "items of the batch")
	flag.IntVar(&plant.urgent, "urgent", 3, "number of urgent tasks in between")
	flag.DurationVar(&plant.think, "think", 20*time.Millisecond, "time that an item takes")
	flag.DurationVar(&plant.grace, "grace", 5*time.Second, "`time` for the batch to release the lock")
	flag.StringVar(&plant.path, "path", "/curator-handover", "`path` of the lock and the progress")
	flag.Parse()

	demo.Main(func(ctx context.Context) error {
		list, stop, err := demo.Connect(ctx, plant.out, *servers)
		if err != nil {
			return err
		}
		defer stop()
		return plant.run(ctx, list)
	})
}

// plant is one run.
type plant struct {
	out           io.Writer
	path          string
	items, urgent int
	think, grace  time.Duration
}

func (p plant) lockPath() string     { return framework.Join(p.path, "lock") }
func (p plant) progressPath() string { return framework.Join(p.path, "progress") }

func (p plant) run(ctx context.Context, servers []string) error {
	if p.items < 1 || p.urgent < 0 || p.urgent >= p.items || p.think < 0 || p.grace < 0 {
		return errors.New("-items must be positive, -urgent less than -items, -think and -grace not negative")
	}
	batchClient, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer batchClient.Close()
	urgentClient, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer urgentClient.Close()
	if err := p.reset(ctx, batchClient); err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	log := journal{out: p.out, done: make([]int, p.items), due: make(chan struct{}, p.urgent)}
	log.every = p.items / (p.urgent + 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.batch(ctx, batchClient, &log); err != nil {
			cancel(fmt.Errorf("batch: %w", err)) // one failure ends the run
		}
	})
	wg.Go(func() {
		if err := p.urgentTasks(ctx, urgentClient, &log); err != nil {
			cancel(fmt.Errorf("urgent task: %w", err))
		}
	})
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return log.summary(p.urgent)
}

// reset sets the progress to zero, even after an earlier run.
func (p plant) reset(ctx context.Context, client *framework.Client) error {
	_, err := client.Create(ctx, p.progressPath(), []byte("0"), framework.PersistentParents(), framework.OrSet())
	return err
}

// batch processes all items in as many holds as needed.
func (p plant) batch(ctx context.Context, client *framework.Client, log *journal) error {
	m, err := mutex.New(client, p.lockPath())
	if err != nil {
		return err
	}
	l, err := revocable.New(m)
	if err != nil {
		return err
	}
	for {
		hold, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		finished, err := p.work(ctx, client, hold, log)
		err = errors.Join(err, hold.Release())
		if errors.Is(err, lock.ErrNodeDeleted) { // as ErrRevoked is
			log.say("batch: node deleted, acquiring again")
			continue
		}
		if finished || err != nil {
			return err
		}
	}
}

// work continues the batch until it is finished or asked to release.
func (p plant) work(ctx context.Context, client *framework.Client, hold *revocable.Hold, log *journal) (finished bool, err error) {
	data, _, err := client.Get(hold.Context(), p.progressPath())
	if err != nil {
		return false, err
	}
	next, err := strconv.Atoi(string(data))
	if err != nil {
		return false, err
	}
	log.say("batch: continuing with item %d", next)
	for ; next < p.items; next++ {
		select {
		case <-hold.Revoked():
			log.say("batch: asked to hand over before item %d", next)
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		default:
		}
		if err := p.item(client, hold, next); err != nil {
			return false, err
		}
		log.did(next)
	}
	return true, nil
}

// item processes one item and saves the progress with the guard: a batch whose node was deleted
// cannot overwrite the progress of a later holder.
func (p plant) item(client *framework.Client, hold *revocable.Hold, n int) error {
	select {
	case <-time.After(p.think): // the work
	case <-hold.Done():
		return hold.Err()
	}
	_, err := client.Multi(hold.Context(), hold.Guard(),
		framework.SetOp(p.progressPath(), []byte(strconv.Itoa(n+1))))
	return err
}

// urgentTasks runs each urgent task when it is due.
func (p plant) urgentTasks(ctx context.Context, client *framework.Client, log *journal) error {
	m, err := mutex.New(client, p.lockPath())
	if err != nil {
		return err
	}
	for n := range p.urgent {
		select {
		case <-log.due:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		hold, err := p.takeOver(ctx, client, m)
		if err != nil {
			return err
		}
		log.inserted(n + 1)
		if err := hold.Release(); err != nil {
			return err
		}
	}
	return nil
}

// takeOver queues and asks the holder to release. It repeats the request until it holds: the batch
// may have released and acquired again before this client was in the queue.
func (p plant) takeOver(ctx context.Context, client *framework.Client, m *mutex.Mutex) (*lock.Hold, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	got := make(chan *lock.Hold, 1)
	var waiting sync.WaitGroup
	waiting.Go(func() { // ends with the hold, or with ctx
		defer close(got)
		hold, err := m.Acquire(ctx)
		if err != nil {
			cancel(err)
			return
		}
		got <- hold
	})
	defer waiting.Wait()
	for again := time.Duration(0); ; again = 50 * time.Millisecond {
		select {
		case hold, ok := <-got:
			if !ok {
				return nil, context.Cause(ctx)
			}
			return hold, nil
		case <-time.After(again):
		}
		if err := p.askStrangers(ctx, client, m); err != nil {
			cancel(err)
		}
	}
}

// askStrangers asks holders in other sessions to release.
func (p plant) askStrangers(ctx context.Context, client *framework.Client, m *mutex.Mutex) error {
	session, err := client.Session(ctx)
	if err != nil {
		return err
	}
	ps, err := m.Participants(ctx)
	if err != nil {
		return err
	}
	for _, participant := range ps {
		if !participant.Holds || participant.SessionID == session.ID() {
			continue
		}
		err := revocable.Revoke(ctx, client, participant.Path, revocable.WithForce(p.grace))
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // it has released by itself
			return err
		}
	}
	return nil
}

// journal collects the reports of the batch and the urgent tasks.
type journal struct {
	out   io.Writer
	every int           // items between urgent tasks
	due   chan struct{} // has a value for each urgent task that is due

	mu     sync.Mutex // guards the fields below
	done   []int      // how often each item was
	urgent int
}

func (j *journal) say(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.out, format+"\n", args...)
}

// did counts an item, and makes an urgent task due after every few items.
func (j *journal) did(item int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done[item]++
	if (item+1)%j.every == 0 {
		select {
		case j.due <- struct{}{}:
		default: // all were due
		}
	}
}

func (j *journal) inserted(task int) {
	j.say("urgent task %d: acquired and released", task)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.urgent++
}

// summary prints the result. It returns an error if the run failed.
func (j *journal) summary(urgent int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	once := 0
	for _, n := range j.done {
		if n == 1 {
			once++
		}
	}
	fmt.Fprintf(j.out, "\nitems processed once  %d of %d\n", once, len(j.done))
	fmt.Fprintf(j.out, "urgent tasks          %d of %d\n", j.urgent, urgent)
	if once != len(j.done) || j.urgent != urgent {
		return errors.New("an item was skipped or processed twice, or an urgent task was skipped")
	}
	return nil
}
