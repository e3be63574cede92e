package lock

import "github.com/gocurator/curator/recipes/internal/recipe"

// start calls f on another goroutine. wait returns its result: see recipe.Start.
func start[T any](f func() T) (wait func() T) { return recipe.Start(f) }

// together calls f with the numbers below n, all at once, and returns when all calls have. The last
// one is called on the goroutine of the caller.
func together(n int, f func(i int)) {
	if n == 0 {
		return
	}
	waits := make([]func() struct{}, n-1)
	for i := range waits {
		waits[i] = start(func() struct{} { f(i); return struct{}{} })
	}
	f(n - 1)
	for _, wait := range waits {
		wait()
	}
}
