package lock

// start calls f on a goroutine of its own. wait returns its result, and panics as f did: the client
// calls functions of the user, such as the retry policy, and those panic only on the goroutine that
// called Acquire.
func start[T any](f func() T) (wait func() T) {
	type outcome struct {
		value    T
		panicked any
	}
	ended := make(chan outcome, 1)
	go func() { // ends with f
		o := outcome{panicked: errPanicked} // also for runtime.Goexit
		defer func() {
			if p := recover(); p != nil {
				o.panicked = p
			}
			ended <- o
		}()
		o.value = f()
		o.panicked = nil
	}()
	return func() T {
		o := <-ended
		if o.panicked != nil {
			panic(o.panicked)
		}
		return o.value
	}
}

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
