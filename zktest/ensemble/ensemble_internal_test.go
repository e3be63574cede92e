package ensemble

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAPartitionThatFailsIsTriedAgain: what the engine has refused is not taken for done.
func TestAPartitionThatFailsIsTriedAgain(t *testing.T) {
	var refuses atomic.Bool
	var done atomic.Value
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			http.Error(w, "not now", http.StatusInternalServerError)
			return
		}
		done.Store(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	}))
	t.Cleanup(engine.Close)
	client, err := docker.NewClient("tcp://" + engine.Listener.Addr().String())
	require.NoError(t, err)
	p, err := newProxy(nil)
	require.NoError(t, err)
	t.Cleanup(p.close)
	e := &Ensemble{docker: client, peers: &docker.Network{ID: "peers"}, servers: []*server{{container: "c", host: "h", proxy: p}}}
	for what, f := range map[string]func() error{"disconnect": func() error { return e.Partition(0) }, "connect": e.Heal} {
		done.Store("")
		e.servers[0].cut = what == "connect"
		refuses.Store(true)
		assert.Error(t, f())
		refuses.Store(false)
		assert.NoError(t, f())
		assert.Equal(t, what, done.Load())
	}
}
