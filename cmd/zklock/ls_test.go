//go:build unix

package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/zktest"
)

func TestListRecursively(t *testing.T) {
	server := zktest.NewServer(t)
	client := newClient(t, server)
	for _, path := range []string{"/app/locks/nightly", "/app/a"} {
		m := testbed.Must(mutex.New(client, path, lock.WithData([]byte("the job"))))
		testbed.Acquire(t, m)
	}
	s := testbed.Must(semaphore.New(client, "/app/pool", 2))
	testbed.Acquire(t, s)
	testbed.Create(t, client, "/app/other/node", nil, framework.PersistentParents())
	require.NoError(t, server.Create("/app/a.zklock/_c_x-lock-0000000000", []byte("{}")))

	want := map[string]string{"/app/a": "mutex", "/app/locks/nightly": "mutex", "/app/pool": "semaphore"}
	for _, path := range []string{"/", "/app"} {
		var found []struct {
			Path, Kind   string
			Participants []line
		}
		require.NoError(t, json.Unmarshal([]byte(succeeds(t, server, "ls", "-r", "--json", path)), &found))
		got := map[string]string{}
		for _, l := range found {
			got[l.Path] = l.Kind
			assert.Len(t, l.Participants, 1, l.Path)
		}
		assert.Equal(t, want, got, path)
	}
	out := succeeds(t, server, "ls", "--recursive", "/app/locks")
	assert.Regexp(t, `^/app/locks/nightly: mutex\nSTATE .*\nholds +lock +the job .*\n$`, out)
	assert.Empty(t, succeeds(t, server, "ls", "-r", "/app/other"))
}
