package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock"
)

// How often we look who is ahead of us: soon at first, since our node is made in a moment. Then each look costs a list and a read of each
// node, so it is only done with -v.
const (
	firstLook    = 100 * time.Millisecond
	lookInterval = time.Second
)

// maxNamed is how many of those ahead are named.
const maxNamed = 3

// reportAhead says who is ahead of us in the queue, once and when that has changed, until stop is called, which waits for its end.
func (c *contended) reportAhead(ctx context.Context, t *tool) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		said := ""
		for pause := firstLook; wait.Sleep(ctx, pause) == nil; pause = min(2*pause, lookInterval) {
			ahead, err := c.ahead(ctx)
			if err != nil || len(ahead) == 0 { // the acquire itself reports errors
				continue
			}
			if text := describe(ahead); text != said && ctx.Err() == nil {
				said = text
				t.say("waiting for %s: %s", c.path, text)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// ahead are those before our node in the queue; nobody, if it is not there yet or holds.
func (c *contended) ahead(ctx context.Context) ([]lock.Participant, error) {
	session, err := c.shadows.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.Participants.Participants(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p lock.Participant) bool { return p.Session == session.ID() })
	if i < 0 || all[i].Holds {
		return nil, nil
	}
	return all[:i], nil
}

// describe names participants. The text changes only with them: it has no times.
func describe(all []lock.Participant) string {
	var names []string
	for _, p := range all[:min(len(all), maxNamed)] {
		state := "waits"
		if p.Holds {
			state = "holds"
		}
		names = append(names, fmt.Sprintf("%s (%s, session %#x)", printable(string(p.Data)), state, uint64(p.Session)))
	}
	text := fmt.Sprintf("%d ahead: %s", len(all), strings.Join(names, ", "))
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
