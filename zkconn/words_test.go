package zkconn_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zkconn"
	"github.com/gocurator/curator/zktest"
)

// answering is the address of a server that answers each four-letter word with this text.
func answering(t *testing.T, text string) string {
	t.Helper()
	l := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4))
			_, _ = c.Write([]byte(text))
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func TestFLWSrvr(t *testing.T) {
	rest := "\nLatency min/avg/max: 0/0.0989/7\nReceived: 4\nSent: 3\nConnections: 1\nOutstanding: 0\nZxid: 0x100000002\n" +
		"Mode: standalone\nNode count: 5\n"
	for version, text := range map[string]string{
		"3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf": "built on 03/06/2019 16:18 GMT",
		"3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f":  "built on 2022-02-25 08:49 UTC",
		"3.8.0-${mvngit.commit.id}":                       "built on 2024-12-29 17:54 UTC",
	} {
		stats, ok := zkconn.FLWSrvr([]string{answering(t, "Zookeeper version: "+version+", "+text+rest)}, time.Minute)
		require.Len(t, stats, 1)
		require.NoError(t, stats[0].Error, version)
		require.True(t, ok)
		require.Equal(t, version, stats[0].Version)
		require.EqualValues(t, 5, stats[0].NodeCount)
		require.EqualValues(t, 1, stats[0].Epoch)
		require.EqualValues(t, 2, stats[0].Counter)
		require.Equal(t, zkconn.ModeStandalone, stats[0].Mode)
		require.InDelta(t, 0.0989, stats[0].AvgLatency, 1e-9)
		require.Greater(t, stats[0].BuildTime.Year(), 2018)
	}
	stats, ok := zkconn.FLWSrvr(zktest.NewServer(t).Servers(), time.Minute)
	require.True(t, ok, stats[0].Error)
}

func TestFLWCons(t *testing.T) {
	server := answering(t, " /127.0.0.1:53370[0](queued=0,recved=1,sent=0)\n"+
		" /10.0.0.7:40112[1](queued=0,recved=3,sent=4,sid=0x1000008a2f10001,lop=PING,est=1700000000000,to=10000,lcxid=0x2,"+
		"lzxid=0xffffffffffffffff,lresp=17,llat=0,minlat=0,avglat=0,maxlat=3)\n\n")
	servers, ok := zkconn.FLWCons([]string{server}, time.Minute)
	require.True(t, ok, "the connection that asks has no session, and is no fault")
	require.Len(t, servers, 1)
	require.NoError(t, servers[0].Error)
	require.Len(t, servers[0].Clients, 1)
	c := servers[0].Clients[0]
	require.Equal(t, "10.0.0.7:40112", c.Addr)
	require.EqualValues(t, 0x1000008a2f10001, c.SessionID)
	require.EqualValues(t, -1, c.Lzxid)
	require.EqualValues(t, 3, c.MaxLatency)
	require.EqualValues(t, 4, c.Sent)
}

// TestFourLetterWordsOfOddServers: go-zookeeper's FLWRuok panics on a short answer.
func TestFourLetterWordsOfOddServers(t *testing.T) {
	for _, text := range []string{"", "im", "nonsense\n", "Zookeeper version: 1, built on never\n"} {
		server := []string{answering(t, text)}
		require.Equal(t, []bool{false}, zkconn.FLWRuok(server, time.Minute))
		stats, ok := zkconn.FLWSrvr(server, time.Minute)
		require.False(t, ok)
		require.Error(t, stats[0].Error)
		require.Equal(t, server[0], stats[0].Server)
		if text != "" {
			clients, ok := zkconn.FLWCons(server, time.Minute)
			require.False(t, ok)
			require.Error(t, clients[0].Error)
		}
	}
	require.Equal(t, []bool{true}, zkconn.FLWRuok([]string{answering(t, "imok")}, time.Minute))
	closed := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))
	require.NoError(t, closed.Close())
	require.Equal(t, []bool{false}, zkconn.FLWRuok([]string{closed.Addr().String()}, time.Minute))
}
