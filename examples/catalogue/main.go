// Catalogue keeps a price list in ZooKeeper that many programs read and one program rarely changes.
// The list has one node per article, so a change takes several writes, and a reader between two of
// them would see prices of two editions.
//
// Readers hold the read side of a read/write lock while they read, many at a time. The publisher
// holds the write side while it writes. Then it downgrades: it continues as a reader, releases the
// write side, and checks what it has written together with the other readers, while the next
// publisher still waits.
//
//	go run ./examples/catalogue
//	go run ./examples/catalogue -servers host:port,... -readers 10 -editions 5
//
// It exits with 1 if a reader has seen a mixture.
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

	"github.com/gocurator/curator/examples/internal/demo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/rwlock"
)

func main() {
	shop := shop{out: os.Stdout}
	servers := demo.Servers()
	flag.IntVar(&shop.readers, "readers", 8, "number of readers, each with its own session")
	flag.IntVar(&shop.publishers, "publishers", 2, "number of publishers, each with its own session")
	flag.IntVar(&shop.editions, "editions", 5, "editions per publisher")
	flag.IntVar(&shop.articles, "articles", 5, "articles in the catalogue")
	flag.StringVar(&shop.path, "path", "/curator-catalogue", "`path` of the lock and the catalogue")
	flag.Parse()

	demo.Main(func(ctx context.Context) error {
		list, stop, err := demo.Connect(ctx, shop.out, *servers)
		if err != nil {
			return err
		}
		defer stop()
		return shop.run(ctx, list)
	})
}

// shop is one run.
type shop struct {
	out                                     io.Writer
	path                                    string
	readers, publishers, editions, articles int
}

func (s shop) article(n int) string {
	return framework.Join(s.path, "article-"+strconv.Itoa(n))
}

func (s shop) run(ctx context.Context, servers []string) error {
	if s.readers < 1 || s.publishers < 1 || s.editions < 1 || s.articles < 1 {
		return errors.New("-readers, -publishers, -editions and -articles must be positive")
	}
	client, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	for n := range s.articles {
		_, err := client.Create(ctx, s.article(n), []byte("first edition"), framework.PersistentParents(), framework.OrSet())
		if err != nil {
			return err
		}
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	log := journal{out: s.out}
	var publishing, reading sync.WaitGroup
	published := make(chan struct{})
	start := func(wg *sync.WaitGroup, role func(context.Context, *framework.Client, *rwlock.Lock) error) {
		wg.Go(func() {
			if err := s.with(servers, func(c *framework.Client, l *rwlock.Lock) error { return role(ctx, c, l) }); err != nil {
				cancel(err) // one failure ends the run
			}
		})
	}
	for range s.readers {
		start(&reading, func(ctx context.Context, c *framework.Client, l *rwlock.Lock) error {
			return s.browse(ctx, c, l, published, &log)
		})
	}
	for n := range s.publishers {
		start(&publishing, func(ctx context.Context, c *framework.Client, l *rwlock.Lock) error {
			return s.publish(ctx, c, l, n+1, &log)
		})
	}
	publishing.Wait()
	close(published)
	reading.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return log.summary(s.publishers * s.editions)
}

// with calls f with a client of its own and the lock.
func (s shop) with(servers []string, f func(*framework.Client, *rwlock.Lock) error) error {
	client, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	l, err := rwlock.New(client, framework.Join(s.path, "lock"))
	if err != nil {
		return err
	}
	return f(client, l)
}

// browse reads the catalogue until all editions are published, and once more.
func (s shop) browse(ctx context.Context, client *framework.Client, l *rwlock.Lock, published <-chan struct{}, log *journal) error {
	for last := false; !last; {
		select {
		case <-published:
			last = true
		default:
		}
		err := l.Read().Do(ctx, func(ctx context.Context) error {
			defer log.enter()()
			_, err := s.read(ctx, client)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// publish publishes the editions of one publisher.
func (s shop) publish(ctx context.Context, client *framework.Client, l *rwlock.Lock, publisher int, log *journal) error {
	for n := range s.editions {
		edition := fmt.Sprintf("edition %d of publisher %d", n+1, publisher)
		if err := s.edit(ctx, client, l, edition, log); err != nil {
			return err
		}
	}
	return nil
}

// edit writes an edition, downgrades, reads and releases.
func (s shop) edit(ctx context.Context, client *framework.Client, l *rwlock.Lock, edition string, log *journal) error {
	write, err := l.Write().Acquire(ctx)
	if err != nil {
		return err
	}
	defer write.Release()
	if err := s.write(client, write, edition); err != nil {
		return err
	}

	// From here on others may read, but none can write before this reader has finished.
	read, err := l.Downgrade(write.Context())
	if err != nil {
		return err
	}
	defer read.Release()
	if err := write.Release(); err != nil {
		return err
	}
	defer log.enter()()
	found, err := s.read(read.Context(), client)
	if err != nil {
		return err
	}
	if found != edition {
		return fmt.Errorf("printed %q, want %q", found, edition)
	}
	log.published(edition)
	return read.Release()
}

// write puts the edition into each article, one by one. Each write has the guard of the write hold,
// so a publisher that was stopped for too long cannot overwrite a later edition.
func (s shop) write(client *framework.Client, hold *lock.Hold, edition string) error {
	for n := range s.articles {
		_, err := client.Multi(hold.Context(), hold.Guard(),
			framework.SetOp(s.article(n), []byte(edition)))
		if err != nil {
			return err
		}
	}
	return nil
}

// read returns the edition that all articles belong to.
func (s shop) read(ctx context.Context, client *framework.Client) (edition string, err error) {
	for n := range s.articles {
		data, _, err := client.Get(ctx, s.article(n))
		if err != nil {
			return "", err
		}
		if n > 0 && string(data) != edition {
			return "", fmt.Errorf("the catalogue mixes articles of %q and %q", edition, data)
		}
		edition = string(data)
	}
	return edition, nil
}

// journal collects the reports of readers and publishers.
type journal struct {
	out io.Writer

	mu              sync.Mutex // guards the fields below
	inside, most    int        // readers at a time
	reads, editions int
}

// enter counts a reader until the returned function is called.
func (j *journal) enter() (leave func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reads++
	j.inside++
	j.most = max(j.most, j.inside)
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.inside--
	}
}

func (j *journal) published(edition string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.editions++
	fmt.Fprintln(j.out, "published and verified:", edition)
}

// summary prints the result. It returns an error if the run failed.
func (j *journal) summary(want int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.out, "\neditions  %d of %d\n", j.editions, want)
	fmt.Fprintf(j.out, "reads     %d, at most %d concurrent, none mixed\n", j.reads, j.most)
	if j.editions != want {
		return fmt.Errorf("published %d editions, want %d", j.editions, want)
	}
	return nil
}
