package conn

import (
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
)

// TestALongRequestIsNotCopied before it is written.
func TestALongRequestIsNotCopied(t *testing.T) {
	c, p := open(t, time.Minute, Handlers{})
	r, answered := deletion()
	r.Frame = append(Begin(1<<20), make([]byte, 1<<20)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.Send(r)
	_, err := io.CopyN(io.Discard, p, 4+8+1<<20)
	require.NoError(t, err)
	p.reply(1, proto.OK)
	require.NoError(t, <-answered)
	runtime.ReadMemStats(&after)
	require.Less(t, int(after.TotalAlloc-before.TotalAlloc), 1<<19)
}
