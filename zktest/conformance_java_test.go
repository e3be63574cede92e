package zktest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// jars is where Debian's packages zookeeper and its dependencies are.
const jars = "/usr/share/java"

// TestJavaClientConnectsUnchanged types commands into ZooKeeper's own command line.
func TestJavaClientConnectsUnchanged(t *testing.T) {
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("LEFT OUT, needs Java: no java in the path")
	}
	if _, err := os.Stat(filepath.Join(jars, "zookeeper.jar")); err != nil {
		t.Skipf("LEFT OUT, needs ZooKeeper's Java client: %v", err)
	}
	s := zktest.NewServer(t, zktest.WithProperties(map[string]string{"extendedTypesEnabled": "true"}))
	ctx := testbed.Timeout(t, 10*time.Minute)
	client := exec.CommandContext(ctx, java, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", filepath.Join(jars, "*"),
		"org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", s.Addr())
	client.Stdin = strings.NewReader(strings.Join([]string{
		"create /plain data", "create -c /container", "create -t 3600000 /ttl", "create -s -e /container/n-", "set -s /plain other",
		"addWatch -m PERSISTENT_RECURSIVE /plain", "create /plain/child", "ls -s /", "get -s /container/n-0000000000", "getAllChildrenNumber /",
		"addauth digest user:password", "setAcl /plain auth::cdrwa", "getAcl /plain", "getEphemerals", "whoami", "sync /plain",
		"delete /nothing", "deleteall /plain", "quit", "",
	}, "\n"))
	text, err := client.CombinedOutput()
	require.NoError(t, err, "%s", text)
	t.Logf("%s", text)
	for _, want := range []string{
		"Created /plain\n", "Created /container\n", "Created /ttl\n", "Created /container/n-0000000000\n", "dataVersion = 1",
		"NodeCreated path:/plain/child", "[container, plain, ttl, zookeeper]", "'digest,'user:", ": cdrwa", "[/container/n-0000000000]",
		"digest: user", "Sync is OK", "Node does not exist: /nothing",
	} {
		require.Contains(t, string(text), want)
	}
	require.Equal(t, "/container \"\" container\n/ttl \"\" ttl 1h0m0s\n", s.Tree(), "its session was closed")
}
