package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
)

// electionProgram is one side of the comparison of elections: a candidate, with a client in a
// process of its own, like Java's (peers/Elections.java). Both answer the same lines with a line of
// numbers:
//
//	join PATH    campaigns, and waits until its node is in the queue: 0
//	lead         waits until it leads: when that began, in nanoseconds of the clock
//	resign       resigns: when it began to do so
//	session      the session's timeout, in nanoseconds, as the servers have granted it
type electionProgram struct {
	campaign campaign
	session  func(ctx context.Context) (time.Duration, error)
	began    chan term    // terms of the campaign that was joined; nil: none
	resign   func() error // resigns the term; nil: it does not lead
}

// campaign joins an election, calls joined when its node is in the queue, and returns when it
// leads.
type campaign func(ctx context.Context, path string, joined func()) (resign func() error, err error)

// term is the result of a campaign.
type term struct {
	began  time.Time
	resign func() error
	err    error
}

// serveElections answers lines until there are no more. who selects the candidate: ours, or the
// floor.
func serveElections(ctx context.Context, who string, addresses []string, timeout time.Duration, in io.Reader, out io.Writer) error {
	var p *electionProgram
	switch who {
	case "ours":
		client, err := framework.New(addresses, framework.WithSessionTimeout(timeout))
		if err != nil {
			return err
		}
		defer client.Close()
		p = &electionProgram{campaign: ourCampaign(client), session: func(ctx context.Context) (time.Duration, error) {
			session, err := client.Session(ctx)
			if err != nil {
				return 0, err
			}
			return session.Timeout(), nil
		}}
	case "floor":
		e := new(entrant)
		defer e.close()
		conn, err := dial(&servers{addresses: addresses}, e)
		if err != nil {
			return err
		}
		p = &electionProgram{campaign: floorCampaign(conn)}
	default:
		return fmt.Errorf("unknown candidate %q", who)
	}
	return serveLines(in, out, func(words []string) ([]int64, error) {
		number, err := p.answer(ctx, words)
		return []int64{number}, err
	})
}

func (p *electionProgram) answer(ctx context.Context, words []string) (int64, error) {
	switch {
	case len(words) == 2 && words[0] == "join" && p.began == nil && p.resign == nil:
		return 0, p.join(ctx, words[1])
	case len(words) == 1 && words[0] == "lead" && p.began != nil:
		t := <-p.began
		p.began, p.resign = nil, t.resign
		return t.began.UnixNano(), t.err
	case len(words) == 1 && words[0] == "resign" && p.resign != nil:
		resign := p.resign
		p.resign = nil
		now := time.Now()
		return now.UnixNano(), resign()
	case len(words) == 1 && words[0] == "session" && p.session != nil:
		timeout, err := p.session(ctx)
		return int64(timeout), err
	}
	return 0, fmt.Errorf("no such command now")
}

func (p *electionProgram) join(ctx context.Context, path string) error {
	began, joined := make(chan term, 1), make(chan struct{})
	go func() { // ends when it leads
		resign, err := p.campaign(ctx, path, func() { close(joined) })
		began <- term{time.Now(), resign, err}
	}()
	p.began = began
	select {
	case <-joined:
		return nil
	case t := <-began:
		began <- t
		return t.err // nil: it led before it saw its own node
	}
}

func ourCampaign(client *framework.Client) campaign {
	var n atomic.Int64
	return func(ctx context.Context, path string, joined func()) (func() error, error) {
		session, err := client.Session(ctx)
		if err != nil {
			return nil, err
		}
		id := fmt.Sprintf("%x-%d", session.ID(), n.Add(1))
		election, err := leader.New(client, path, leader.WithID(id))
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			if awaitParticipant(ctx, election, id) == nil {
				joined()
			}
		}()
		t, err := election.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		return t.Release, nil
	}
}

// awaitParticipant returns when a candidate is in the queue.
func awaitParticipant(ctx context.Context, e *leader.Election, id string) error {
	for {
		all, err := e.Participants(ctx)
		if err != nil {
			return err
		}
		for _, p := range all {
			if p.ID == id {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// floorCampaign is an election with the minimum of requests, as in floorContender.
func floorCampaign(conn *zk.Conn) campaign {
	return func(_ context.Context, path string, joined func()) (func() error, error) {
		if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return nil, err
		}
		node, err := conn.Create(path+"/n-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			return nil, err
		}
		joined()
		return func() error { return conn.Delete(node, -1) }, awaitAhead(conn, node)
	}
}
