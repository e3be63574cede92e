package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
)

func TestWrite(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "a.go")
	require.NoError(t, os.WriteFile(file, []byte(`package a

func f() {
	mu.Lock()
	defer mu.Unlock()
	select {
	case <-c:
		mu.Unlock()
	default:
		c <- 1
	}
	x.Lock(1)
}
`), 0o666))
	places := testbed.Must(write(out, time.Millisecond, []string{dir}))
	assert.Equal(t, 4, places, "before Lock, select and a send, after Unlock; not in a defer, not for other methods")
	text := testbed.Must(os.ReadFile(filepath.Join(out, "overlay.json")))
	var overlay struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(text, &overlay))
	require.Len(t, overlay.Replace, 2)
	text = testbed.Must(os.ReadFile(overlay.Replace[file]))
	assert.Equal(t, `package a func f() { pauseSchedule() mu.Lock() defer mu.Unlock() pauseSchedule() select { case <-c: mu.Unlock() pauseSchedule() default: pauseSchedule() c <- 1 } x.Lock(1) }`,
		strings.Join(strings.Fields(string(text)), " "))
	text = testbed.Must(os.ReadFile(overlay.Replace[filepath.Join(dir, "pause_schedule.go")]))
	assert.Contains(t, string(text), "Nsec: rand.Int64N(1000000)")

	_, err := write(out, time.Millisecond, []string{t.TempDir()})
	assert.ErrorContains(t, err, "no place for a pause")
}
