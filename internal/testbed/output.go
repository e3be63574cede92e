package testbed

import (
	"bytes"
	"sync"
)

// Output is what a program or a log prints. It can be read meanwhile, and is safe for concurrent use.
type Output struct {
	mu   sync.Mutex // guards what follows
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
