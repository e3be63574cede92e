// Package locks contains the functions of package lock that only recipes of this module may call.
package locks

import (
	"github.com/gocurator/curator/recipes/internal/locking"
	"github.com/gocurator/curator/recipes/lock"
)

// Inside contains the functions. Package lock fills it: a function of its API that returned them
// could be called by users, and would give a held mutex a second holder.
var Inside = locking.Filled.(locking.Lock[*lock.Queue, *lock.Hold, *lock.Group, lock.Participant, lock.Option])
