package recipe

import "errors"

// Start calls f on a separate goroutine. wait returns its result, and panics as f did: the client
// calls functions of the user, such as the retry policy, and those panic only on the goroutine of
// the caller.
func Start[T any](f func() T) (wait func() T) {
	type outcome struct {
		value    T
		panicked any
	}
	ended := make(chan outcome, 1)
	go func() { // ends with f
		o := outcome{panicked: errPanicked} // even after runtime.Goexit
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

// errPanicked is the panic of a function that has ended its goroutine.
var errPanicked = errors.New("panicked")
