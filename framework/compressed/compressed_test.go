package compressed_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/compressed"
	"github.com/gocurator/curator/internal/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCompressedNodesHoldGzip(t *testing.T) {
	client := testbed.InProcess(t).Client(t, framework.WithNamespace("ns"), framework.WithDefaultData([]byte("default")))
	ctx := testbed.Context(t)
	stored := func(path string) string {
		r := testbed.Must(gzip.NewReader(strings.NewReader(testbed.Get(t, client, path))))
		var b bytes.Buffer
		require.NoError(t, testbed.Err(b.ReadFrom(r)))
		return b.String()
	}
	for path, test := range map[string]struct {
		data []byte
		want string
	}{
		"/default": {nil, "default"}, "/empty": {[]byte{}, ""}, "/text": {[]byte("text"), "text"},
		"/long": {bytes.Repeat([]byte("long"), 300_000), string(bytes.Repeat([]byte("long"), 300_000))},
	} {
		require.Equal(t, path, testbed.Must(compressed.Create(ctx, client, path, test.data)))
		require.Equal(t, test.want, stored(path))
		data, stat, err := compressed.Get(ctx, client, path)
		require.NoError(t, err)
		require.Equal(t, []byte(test.want), data)
		require.NotEqual(t, len(test.want), int(stat.DataLength))

		_, _, watch, err := compressed.GetW(ctx, client, path)
		require.NoError(t, err)
		_, err = compressed.Set(ctx, client, path, []byte("other"), framework.IfVersion(stat.Version))
		require.NoError(t, err)
		testbed.Receive(t, watch.Done(), "the change")
		require.Equal(t, "other", stored(path))
		_, err = compressed.Set(ctx, client, path, nil, framework.IfVersion(stat.Version))
		require.ErrorIs(t, err, zk.ErrBadVersion)
		require.NoError(t, testbed.Err(compressed.Set(ctx, client, path, nil)))
		require.Empty(t, stored(path))
	}
	created, err := compressed.Create(ctx, client, "/text/s-", nil, framework.As(framework.EphemeralSequential))
	require.NoError(t, err)
	require.Equal(t, "/text/s-0000000000", created)
}

func TestDataThatAreNotCompressedAreAnError(t *testing.T) {
	client := testbed.InProcess(t).Client(t)
	ctx := testbed.Context(t)
	good := compressed.Encode([]byte("text"))
	damaged := bytes.Clone(good)
	damaged[len(damaged)-8] ^= 1 // of the checksum
	testbed.Create(t, client, "/a", []byte{})
	for name, data := range map[string][]byte{
		"none": nil, "empty": {}, "plain": []byte("plain text, long enough"), "cut": good[:len(good)-1], "damaged": damaged,
		"followed": append(bytes.Clone(good), 0), "two": append(bytes.Clone(good), good...),
	} {
		testbed.Set(t, client, "/a", data)
		got, stat, err := compressed.Get(ctx, client, "/a")
		require.ErrorIs(t, err, framework.ErrNotCompressed, name)
		testbed.OneOp(t, err, "get", "/a")
		require.Nil(t, got)
		require.Nil(t, stat)
		got, stat, watch, err := compressed.GetW(ctx, client, "/a")
		require.ErrorIs(t, err, framework.ErrNotCompressed, name)
		testbed.OneOp(t, err, "get", "/a")
		require.Nil(t, got)
		require.NotNil(t, stat)
		_, err = compressed.Set(ctx, client, "/a", []byte("good"), framework.IfVersion(stat.Version))
		require.NoError(t, err)
		testbed.Receive(t, watch.Done(), "better data")
	}
	require.ErrorIs(t, testbed.Err(compressed.Get(ctx, client, "/missing")), zk.ErrNoNode)
	_, _, watch, err := compressed.GetW(ctx, client, "/missing")
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.Nil(t, watch)
}

// Java's form of empty data, before version 16 and since. The rest is tested beside Java, in
// interop.
func TestDecodeReadsEmptyDataOfJava(t *testing.T) {
	for _, system := range []byte{0, 0xff} {
		got, err := compressed.Decode([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, system, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0})
		require.NoError(t, err)
		require.Equal(t, []byte{}, got)
	}
}
