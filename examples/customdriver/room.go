package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
)

// nodeName is the part of a node's name after the group's name:
//
//	<path>/_c_<uuid>-<group>.room-<sequence>
const nodeName = ".room-"

// NewRoom returns a lock by which members of one group enter a room. Any number of members of the
// same group can hold it at the same time, but never two groups. The queue is first come, first
// served: a member waits behind an earlier member of another group, even if its own group is in the
// room.
func NewRoom(client *framework.Client, path, group string) (*lock.Queue, error) {
	if group == "" || strings.Contains(group, "/") || strings.Contains(group, nodeName) {
		return nil, fmt.Errorf("room: %w: invalid group %q", framework.ErrBadArgument, group)
	}
	return lock.New(client, path, nodeName, driver{group: group})
}

// driver is the part of a lock that is specific to a room. Package lock maintains sessions, cleans
// up and waits.
type driver struct {
	lock.Standard // its SortKey orders nodes by number
	group         string
}

// Create puts the group into the node's name.
func (d driver) Create(ctx context.Context, client *framework.Client, n lock.Node) (string, error) {
	n.Name = d.group + n.Name
	return d.Standard.Create(ctx, client, n)
}

// Decide grants a lease if no node ahead belongs to another group.
func (d driver) Decide(l lock.Line) (lock.Decision, error) {
	ahead := slices.Clone(l.Children[:slices.Index(l.Children, l.Own)])
	inTheWay := slices.DeleteFunc(ahead, func(child string) bool { return group(child) == group(l.Own) })
	if len(inTheWay) == 0 {
		return lock.Decision{Held: true}, nil
	}
	return lock.Decision{Watch: inTheWay[len(inTheWay)-1:]}, nil // the nearest: nothing can change before its deletion
}

// group returns the group of a node.
func group(child string) string {
	name, _ := framework.Unprotected(child)
	group, _, _ := strings.Cut(name, nodeName)
	return group
}
