package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock"
)

// The intervals between reads of the queue. The first is short, since the node is about to be
// created. A read costs one list and one request per node, so it needs --verbose.
const (
	firstLook    = 100 * time.Millisecond
	lookInterval = time.Second
)

// maxNamed is the number of participants ahead that are named.
const maxNamed = 3

// reportAhead prints the participants ahead in the queue, at first and after each change, until
// stop is called. stop waits for its goroutine.
func (c *contended) reportAhead(ctx context.Context, t *cli.App) (stop func()) {
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
				t.Say("waiting for %s: %s", c.path, text)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// ahead returns the participants before the own node in the queue. There are none if the node does
// not exist yet or holds.
func (c *contended) ahead(ctx context.Context) ([]lock.Participant, error) {
	session, err := c.shadows.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.Participants.Participants(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p lock.Participant) bool { return p.SessionID == session.ID() })
	if i < 0 || all[i].Holds {
		return nil, nil
	}
	return all[:i], nil
}

// describe names participants. The text has no times, so it changes only with them.
func describe(all []lock.Participant) string {
	var names []string
	for _, p := range all[:min(len(all), maxNamed)] {
		state := "waits"
		if p.Holds {
			state = "holds"
		}
		names = append(names, fmt.Sprintf("%s (%s, session %#x)", cli.Printable(string(p.Data)), state, uint64(p.SessionID)))
	}
	text := fmt.Sprintf("%d ahead: %s", len(all), strings.Join(names, ", "))
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
