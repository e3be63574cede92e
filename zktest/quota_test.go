package zktest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

const codeQuotaExceeded = -125

// createData creates a node with data, and returns the code of the answer.
func createData(t *testing.T, c *rawClient, path, data string) int32 {
	t.Helper()
	return ask(t, c, opCreate, creationOf(path, data)).code
}

func setBytes(t *testing.T, c *rawClient, path, data string) int32 {
	t.Helper()
	return ask(t, c, opSetData, setBody(path, data)).code
}

func deleteNode(t *testing.T, c *rawClient, path string) int32 {
	t.Helper()
	return ask(t, c, opDelete, deletion(path)).code
}

// limit gives a path a quota, as the Java client does.
func limit(t *testing.T, c *rawClient, path, limits string) {
	t.Helper()
	require.Zero(t, createData(t, c, "/zookeeper/quota"+path, ""))
	require.Zero(t, createData(t, c, "/zookeeper/quota"+path+"/zookeeper_limits", limits))
	require.Zero(t, createData(t, c, "/zookeeper/quota"+path+"/zookeeper_stats", "count=0,bytes=0"))
}

func usage(t *testing.T, s *zktest.Server, path string) string {
	t.Helper()
	return testbed.ServerData(t, s, "/zookeeper/quota"+path+"/zookeeper_stats")
}

func TestQuotasAreCounted(t *testing.T) {
	s, c := serve(t)
	createData(t, c, "/q", "abc")
	createData(t, c, "/q/x", "12345")
	createData(t, c, "/qq", "not below")
	limit(t, c, "/q", "count=1,bytes=1;byteHardLimit=1;countHardLimit=1")
	require.Equal(t, "count=2,bytes=8", usage(t, s, "/q"), "what was there before")
	before := testbed.ServerStat(t, s, "/zookeeper/quota/q/zookeeper_stats")
	ask(t, c, opGetData, watched("/zookeeper/quota/q/zookeeper_stats", true))

	require.Zero(t, createData(t, c, "/q/y", "1"), "not enforced")
	createData(t, c, "/qq/z", "not below either")
	require.Equal(t, "count=3,bytes=9", usage(t, s, "/q"))
	setBytes(t, c, "/q/y", "four")
	require.Equal(t, "count=3,bytes=12", usage(t, s, "/q"))
	deleteNode(t, c, "/q/x")
	require.Equal(t, "count=2,bytes=7", usage(t, s, "/q"))
	mustCreate(t, c, "/q/e-", 3)
	require.Equal(t, "count=3,bytes=7", usage(t, s, "/q"))
	require.NoError(t, s.ExpireSession(c.id))
	require.Equal(t, "count=2,bytes=7", usage(t, s, "/q"))

	after := testbed.ServerStat(t, s, "/zookeeper/quota/q/zookeeper_stats")
	require.Equal(t, before.Mzxid, after.Mzxid, "the node's own stat does not change")
	require.Equal(t, before.Version, after.Version)
	over(t, c)
	require.Empty(t, c.events, "and nobody is notified")

	c = raw(t, s, nil)
	deleteNode(t, c, "/zookeeper/quota/q/zookeeper_limits")
	createData(t, c, "/q/no-more", "")
	require.Equal(t, "count=2,bytes=7", usage(t, s, "/q"), "a path without limits is not counted")
}

func TestTheNearestQuotaCounts(t *testing.T) {
	s, c := serve(t)
	createData(t, c, "/a", "")
	createData(t, c, "/a/b", "")
	limit(t, c, "/a", "count=5")
	limit(t, c, "/a/b", "count=5")
	createData(t, c, "/a/b/c", "x")
	require.Equal(t, "count=2,bytes=0", usage(t, s, "/a"))
	require.Equal(t, "count=2,bytes=1", usage(t, s, "/a/b"))
}

func TestHardQuotasAreEnforced(t *testing.T) {
	s, c := serve(t, zktest.WithProperties(map[string]string{"enforceQuota": "true"}))
	createData(t, c, "/q", "abc")
	limit(t, c, "/q", "count=1,bytes=1;byteHardLimit=10;countHardLimit=3")
	require.Zero(t, createData(t, c, "/q/a", "12345"), "soft quotas refuse nothing")
	require.EqualValues(t, codeQuotaExceeded, createData(t, c, "/q/b", "123"))
	require.False(t, s.Exists("/q/b"))
	require.Equal(t, "count=2,bytes=8", usage(t, s, "/q"), "nothing of it is counted")
	require.Zero(t, createData(t, c, "/q/b", "12"), "up to the limit")
	require.EqualValues(t, codeQuotaExceeded, createData(t, c, "/q/c", ""))
	require.EqualValues(t, codeQuotaExceeded, setBytes(t, c, "/q/a", "123456"))
	require.Zero(t, setBytes(t, c, "/q/a", "54321"), "no more than before")

	setBytes(t, c, "/zookeeper/quota/q/zookeeper_limits", "byteHardLimit=5;countHardLimit=9")
	require.EqualValues(t, codeQuotaExceeded, setBytes(t, c, "/q/a", "1234"), "less, and still too much")
	require.Zero(t, createData(t, c, "/q/empty", ""), "no more bytes than before")
	require.Zero(t, deleteNode(t, c, "/q/empty"))
	require.Zero(t, setBytes(t, c, "/q/a", ""))
	for limits, code := range map[string]int32{
		"junk": -5, ";countHardLimit=1": -5, "countHardLimit=": -5, "countHardLimit= 1": -5,
		"countHardLimit=1;;bytes=3": codeQuotaExceeded, "countHardLimit=1=2": codeQuotaExceeded, "=1,countHardLimit=1": codeQuotaExceeded,
		"": 0, "count=1": 0,
	} {
		setBytes(t, c, "/zookeeper/quota/q/zookeeper_limits", limits)
		got := createData(t, c, "/q/n", "")
		assert.Equal(t, code, got, "%q", limits)
		if got == 0 {
			deleteNode(t, c, "/q/n")
		}
	}
}

func TestAMultiIsMeasuredByWhatWasBefore(t *testing.T) {
	s, c := serve(t, zktest.WithProperties(map[string]string{"enforceQuota": "true"}))
	createData(t, c, "/q", "")
	limit(t, c, "/q", "countHardLimit=2")
	multi := func(paths ...string) {
		var parts []buffer
		for _, path := range paths {
			parts = append(parts, part(opCreate, create(path, 0)))
		}
		require.Zero(t, ask(t, c, opMulti, multiOf(parts...)).code)
	}
	multi("/q/a", "/q/b")
	require.Equal(t, "count=3,bytes=0", usage(t, s, "/q"))
	multi("/other", "/q/c")
	require.False(t, s.Exists("/other"), "all or none")
	deleteNode(t, c, "/q/b")
	setBytes(t, c, "/zookeeper/quota/q/zookeeper_limits", "countHardLimit=9")
	multi("/q/d", "/q/a") // which exists
	require.Equal(t, "count=2,bytes=0", usage(t, s, "/q"), "what is rolled back is not counted")
	createData(t, c, "/zookeeper/quota/other", "")
	createData(t, c, "/zookeeper/quota/other/zookeeper_stats", "")
	limits := creationOf("/zookeeper/quota/other/zookeeper_limits", "countHardLimit=0")
	ask(t, c, opMulti, multiOf(part(opCreate, limits), part(opCreate, create("/other", 0))))
	require.True(t, s.Exists("/other"), "limits do not hold in the transaction that makes them")
	require.Equal(t, "count=1,bytes=0", usage(t, s, "/other"))
}

func TestSuperUserMayDoEverything(t *testing.T) {
	s := zktest.NewServer(t, zktest.WithProperties(map[string]string{"DigestAuthenticationProvider.superDigest": zktest.Digest("super:secret")}))
	closed := creation("/closed", nil, 31, "digest", "no:body", 0)
	auth := func(credentials string) *rawClient {
		c := raw(t, s, nil)
		require.Zero(t, ask(t, c, opAuth, digest(credentials)).code)
		return c
	}
	c, other := auth("super:secret"), auth("super:wrong")
	require.Zero(t, ask(t, other, opCreate, closed).code)
	require.EqualValues(t, -102, setBytes(t, other, "/closed", "x"))
	require.Zero(t, setBytes(t, c, "/closed", "x"))
	require.Zero(t, createData(t, c, "/closed/child", ""))
	require.Zero(t, deleteNode(t, c, "/closed/child"))
	acl := &cursor{b: ask(t, c, opGetACL, pathOf("/closed")).body}
	require.Equal(t, "[31 digest no:body]", acl.acls(), "hash and all")
	who := &cursor{b: ask(t, c, opWhoAmI, nil).body}
	require.Equal(t, "[digest super ip somewhere super ]", who.who())

	s = zktest.NewServer(t)
	other = auth("super:secret")
	ask(t, other, opCreate, closed)
	require.EqualValues(t, -102, setBytes(t, other, "/closed", "x"), "nobody is super by default")
}

func TestReconfigurationIsAnsweredAsByALoneServer(t *testing.T) {
	for code, opts := range map[int32][]zktest.Option{-123: nil, -6: {zktest.WithProperties(map[string]string{"reconfigEnabled": "true"})}} {
		c := raw(t, zktest.NewServer(t, opts...), nil)
		require.Equal(t, code, ask(t, c, opReconfig, reconfiguration).code)
		ping(t, c) // the connection still works
	}
}
