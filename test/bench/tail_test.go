package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest"
)

func TestTail(t *testing.T) {
	server := zktest.NewServer(t)
	o := options{rounds: 2, turn: 20 * time.Millisecond}
	var out bytes.Buffer
	require.NoError(t, o.followTail(t.Context(), &servers{addresses: server.Servers()}, &out))
	assert.Regexp(t, `\| no \| [1-9]\d* \| \d+\.\d\d ms \|`, out.String())
	assert.Regexp(t, `\| yes \| [1-9]\d* \| \d+\.\d\d ms \|`, out.String())
	assert.Empty(t, server.Tree())
}

func TestRequestsAreCountedByLength(t *testing.T) {
	r := requests{cycles: []time.Duration{3, 1, 2}}
	for _, ms := range []time.Duration{1, 39, 40, 50, 59, 60, 999, 1000, 4759} {
		r.count(fmt.Sprintf("get%d", ms), ms*time.Millisecond)
	}
	assert.Equal(t, [len(bands)]int{2, 1, 2, 1, 1, 2}, r.counts)
	assert.Equal(t, []string{"get1000 1s", "get4759 4.759s"}, r.worst)
}
