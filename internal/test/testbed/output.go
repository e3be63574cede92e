package testbed

import (
	"bytes"
	"sync"
)

// Output collects the output of a program or a log. It can be read at any time, and is safe for
// concurrent use.
type Output struct {
	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
