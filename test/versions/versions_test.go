package versions

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testlevel"
	"github.com/gocurator/curator/zktest"
)

// TestAdjacentVersions_ExcludeEachOther runs two processes of each version on one path for each
// kind of lock. They increment a counter that only the lock protects, so two holders at a time lose
// increments.
func TestAdjacentVersions_ExcludeEachOther(t *testing.T) {
	testlevel.Need(t, testlevel.Nightly)
	root := testbed.Must(filepath.Abs("../.."))
	peers := []string{buildPeer(t, root), buildPeer(t, earlier(t, root))}
	server := zktest.NewServer(t)
	const processes, times = 2, 100
	for _, kind := range []string{"mutex", "writer", "semaphore", "leader"} {
		t.Run(kind, func(t *testing.T) {
			counter := "/count-" + kind
			require.NoError(t, server.Create(counter, []byte("0")))
			var wg sync.WaitGroup
			errs := make(chan error, processes*len(peers))
			for range processes {
				for _, peer := range peers {
					wg.Go(func() {
						out, err := exec.CommandContext(t.Context(), peer, server.Addr(), kind, strconv.Itoa(times)).CombinedOutput()
						if err != nil {
							err = fmt.Errorf("%w: %s", err, out)
						}
						errs <- err
					})
				}
			}
			wg.Wait()
			for range processes * len(peers) {
				require.NoError(t, <-errs)
			}
			data := testbed.Must(server.Get(counter))
			require.Equal(t, strconv.Itoa(processes*len(peers)*times), string(data), "an increment is lost: two held at a time")
		})
	}
}

// earlier returns a copy of the version before the checkout: CURATOR_PREVIOUS, or the last release,
// or the commit before this one. The peer's source is the checkout's.
func earlier(t *testing.T, root string) (dir string) {
	t.Helper()
	revision := os.Getenv("CURATOR_PREVIOUS")
	if revision == "" {
		out, err := git(root, "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
		if err != nil {
			out, err = git(root, "rev-parse", "HEAD^")
		}
		require.NoError(t, err, "this needs a git checkout with at least two commits")
		revision = strings.TrimSpace(string(out))
	}
	t.Logf("the version before is %s", revision)
	dir = t.TempDir()
	archive := testbed.Must(git(root, "archive", revision))
	tar := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	tar.Stdin = bytes.NewReader(archive)
	out, err := tar.CombinedOutput()
	require.NoError(t, err, "%s", out)
	source := testbed.Must(os.ReadFile("peer/main.go"))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "test/versions/peer"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "test/versions/peer/main.go"), source, 0o644))
	return dir
}

func git(root string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	return cmd.Output()
}

// buildPeer compiles the peer against the library in root.
func buildPeer(t *testing.T, root string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "peer")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./test/versions/peer")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
