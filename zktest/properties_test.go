package zktest_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestProperties checks the effect of each property on a server of each version and on a real one.
// Package sasl does so for sessionRequireClientSASLAuth, which a real server needs a JAAS file for.
func TestProperties(t *testing.T) {
	eachServer(t, checkProperties, map[string]string{
		"tickTime": "500", "minSessionTimeout": "1500", "maxSessionTimeout": "7000", "maxClientCnxns": "9", "jute.maxbuffer": "0x1000",
		"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "50", "znode.container.maxNeverUsedIntervalMs": "100",
		"enforceQuota": "true", "reconfigEnabled": "true", "4lw.commands.whitelist": "srvr,conf,mntr,ruok,stat",
		"DigestAuthenticationProvider.superDigest": zktest.Digest("super:secret"),
	})
}

func checkProperties(t *testing.T, address, _ string) {
	c := dial(t, address)
	assert.EqualValues(t, 7000, c.timeout, "maxSessionTimeout")
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	short, err := dialRaw(conn, nil, time.Millisecond)
	require.NoError(t, err)
	assert.EqualValues(t, 1500, short.timeout, "minSessionTimeout")
	require.NoError(t, conn.Close())

	text := wordAt(t, address, "conf")
	for _, line := range []string{"tickTime=500\n", "minSessionTimeout=1500\n", "maxSessionTimeout=7000\n", "maxClientCnxns=9\n"} {
		assert.Contains(t, text, line)
	}
	assert.Contains(t, wordAt(t, address, "wchs"), "whitelist", "4lw.commands.whitelist")

	assert.Zero(t, ask(t, c, opCreateTTL, createTTL("/ttl", 3_600_000)).code, "extendedTypesEnabled")
	assert.EqualValues(t, -6, ask(t, c, opReconfig, reconfiguration).code, "reconfigEnabled")

	// An unused container is deleted, and the check is often.
	require.Zero(t, ask(t, c, opCreateContainer, create("/container", 4)).code)
	for ask(t, c, opExists, watched("/container", false)).code == 0 {
		time.Sleep(10 * time.Millisecond) // no verdict depends on it
	}

	mustCreate(t, c, "/limited", 0)
	for _, path := range []string{"/zookeeper/quota/limited", "/zookeeper/quota/limited/zookeeper_stats"} {
		require.Zero(t, createData(t, c, path, "count=1,bytes=0"))
	}
	limits := "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1"
	require.Zero(t, createData(t, c, "/zookeeper/quota/limited/zookeeper_limits", limits))
	assert.EqualValues(t, -125, ask(t, c, opCreate, create("/limited/more", 0)).code, "enforceQuota")

	require.Zero(t, ask(t, c, opCreate, creation("/closed", nil, 31, "digest", "some:body", 0)).code)
	assert.EqualValues(t, -102, ask(t, c, opGetData, watched("/closed", false)).code)
	require.Zero(t, ask(t, c, opAuth, digest("super:secret")).code)
	assert.Zero(t, ask(t, c, opGetData, watched("/closed", false)).code, "superDigest")

	long := dial(t, address)
	assert.EqualValues(t, -101, ask(t, long, opExists, watched("/"+strings.Repeat("x", 4000), false)).code)
	assert.Error(t, testbed.Err(long.call(opExists, watched("/"+strings.Repeat("x", 4100), false))), "jute.maxbuffer")

	// Nine connections are served, and no tenth. The server may notice late that others were
	// closed.
	others := []*rawClient{c}
	for len(others) < 9 {
		if conn, err = net.Dial("tcp", address); err != nil {
			continue
		}
		if other, err := dialRaw(conn, nil, conformanceTimeout); err == nil {
			others = append(others, other)
			t.Cleanup(func() { _ = conn.Close() })
		}
	}
	for range 5 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		assert.Error(t, testbed.Err(dialRaw(conn, nil, conformanceTimeout)), "maxClientCnxns")
		require.NoError(t, conn.Close())
	}
	for _, other := range others {
		ping(t, other)
	}
}

func TestBadPropertiesAreRefused(t *testing.T) {
	for _, bad := range []string{
		"ticktime=1", "zookeeper.tickTime=1", "=", "tickTime=", "tickTime=0", "tickTime=-1", "tickTime=1s", "tickTime=1.5", "tickTime=99999999999",
		"jute.maxbuffer=63", "jute.maxbuffer=1m", "maxClientCnxns=-1", "extendedTypesEnabled=yes", "extendedTypesEnabled=", "4lw.commands.whitelist=srvr,xxxx",
		"znode.container.checkIntervalMs=0", "znode.container.maxNeverUsedIntervalMs=-1", "DigestAuthenticationProvider.superDigest=super:secret",
		"DigestAuthenticationProvider.superDigest=", "DigestAuthenticationProvider.superDigest=super",
		"DigestAuthenticationProvider.superDigest=:" + base64.StdEncoding.EncodeToString(make([]byte, 20)),
		"minSessionTimeout=40001", "sessionRequireClientSASLAuth=true",
	} {
		name, value, _ := strings.Cut(bad, "=")
		_, err := zktest.Start(zktest.WithProperties(map[string]string{name: value}))
		require.Error(t, err, bad)
		assert.True(t, strings.HasPrefix(err.Error(), "zktest: "), "%v", err)
		assert.Contains(t, err.Error(), name)
		assert.NotContains(t, err.Error(), "\n")
		assert.Error(t, testbed.Err(zktest.StartCluster(1, zktest.WithProperties(map[string]string{name: value}))), bad)
	}
}

func TestPropertiesTakeTheLaterValue(t *testing.T) {
	first := map[string]string{"tickTime": "100", "maxSessionTimeout": "5000"}
	opt := zktest.WithProperties(first)
	first["tickTime"] = "nothing" // the option has a copy
	text := word(t, zktest.NewServer(t, opt, zktest.WithProperties(map[string]string{"maxSessionTimeout": " 3000 "})), "conf")
	require.Contains(t, text, "tickTime=100\n")
	require.Contains(t, text, "minSessionTimeout=200\nmaxSessionTimeout=3000\n")
}

// TestOneConnectionOfAHostMakesRoomForAnother checks that a connection which has ended does not
// count.
func TestOneConnectionOfAHostMakesRoomForAnother(t *testing.T) {
	s := zktest.NewServer(t, zktest.WithInMemory(), zktest.WithProperties(map[string]string{"maxClientCnxns": "1"}))
	first := testbed.Must(s.Dial("", "", 0))
	require.Error(t, testbed.Err(s.Dial("", "", 0)))
	require.NoError(t, testbed.Err(io.WriteString(first, "ruok")))
	require.NoError(t, testbed.Err(io.ReadAll(first))) // the server has closed it
	for {
		if conn, err := s.Dial("", "", 0); err == nil {
			require.NoError(t, conn.Close())
			return
		}
	}
}

func TestOperationsHaveNames(t *testing.T) {
	require.PanicsWithError(t, `zktest: unknown operation "creat": must be a name of ZooKeeper's documentation, such as getChildren2`, func() { zktest.OnOp("create", "creat") })
	for _, name := range []string{"error", "deleteContainer", "", "op 99"} {
		require.Panics(t, func() { zktest.OnOp(name) }, fmt.Sprint(name))
	}
}
