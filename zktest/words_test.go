package zktest_test

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// word asks a server for a four-letter word.
func word(t *testing.T, s *zktest.Server, word string) string {
	t.Helper()
	return wordAt(t, s.Addr(), word)
}

func wordAt(t *testing.T, address, word string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, testbed.Err(io.WriteString(conn, word)))
	text, err := io.ReadAll(conn)
	require.NoError(t, err)
	return string(text)
}

func TestWordsShowSessionsAndWatches(t *testing.T) {
	s := zktest.NewServer(t)
	require.Equal(t, "0 connections watching 0 paths\nTotal watches:0\n", word(t, s, "wchs"))
	require.Equal(t, "\n", word(t, s, "wchc"))
	a, b := raw(t, s, nil), raw(t, s, nil)
	mustCreate(t, a, "/p", 0)
	mustCreate(t, a, "/p/mine", 1)
	mustCreate(t, a, "/e", 1)
	mustCreate(t, b, "/p/other", 1)
	ask(t, a, opGetData, watched("/p", true))
	ask(t, b, opGetData, watched("/p", true))
	ask(t, b, opExists, watched("/none", true))
	ask(t, b, opGetChildren, watched("/e", true)) // real servers leave those out

	idA, idB := fmt.Sprintf("%#x", a.id), fmt.Sprintf("%#x", b.id)
	require.Equal(t, "2 connections watching 2 paths\nTotal watches:3\n", word(t, s, "wchs"))
	require.Equal(t, idA+"\n\t/p\n"+idB+"\n\t/none\n\t/p\n\n", word(t, s, "wchc"))
	require.Equal(t, "/none\n\t"+idB+"\n/p\n\t"+idA+"\n\t"+idB+"\n\n", word(t, s, "wchp"))

	date := `\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}:`
	require.Regexp(t, regexp.MustCompile(`(?s)^SessionTracker dump:\nSession Sets \(\d\)/\(2\):\n(\d expire at `+date+`\n(\t0x[0-9a-f]+\n)+)+`+
		`ephemeral nodes dump:\nSessions with Ephemerals \(2\):\n`+idA+`:\n\t/e\n\t/p/mine\n`+idB+`:\n\t/p/other\n`+
		`Connections dump:\nConnections Sets \(\d\)/\(3\):\n(\d expire at `+date+`\n(\tip: /\S+ sessionId: 0x[0-9a-f]+\n)+)+$`), word(t, s, "dump"))
}

func TestWordsReset(t *testing.T) {
	s, c := serve(t)
	require.Contains(t, word(t, s, "cons"), ",lop=SESS,")
	mustCreate(t, c, "/a", 0)
	text := word(t, s, "cons")
	require.Contains(t, text, "recved=2,sent=2,")
	require.Contains(t, text, ",lop=CREA,")
	require.Contains(t, text, ",lcxid=0x1,")
	require.Equal(t, "Connection stats reset.\n", word(t, s, "crst"))
	text = word(t, s, "cons")
	require.Contains(t, text, "recved=0,sent=0,")
	require.Contains(t, text, ",lop=NA,")
	require.NotContains(t, text, "lcxid")
	require.Contains(t, text, ",lzxid=0xffffffffffffffff,")
	require.NotContains(t, word(t, s, "srvr"), "Received: 1\n")
	require.Equal(t, "Server stats reset.\n", word(t, s, "srst"))
	require.Contains(t, word(t, s, "srvr"), "Received: 1\nSent: 1\n")
}

func TestEnvironmentShowsTheVersion(t *testing.T) {
	require.Regexp(t, `^Environment:\nzookeeper.version=3\.8\.0-\S+, built on `, word(t, zktest.NewServer(t, zktest.WithVersion("3.8.0")), "envi"))
	text := word(t, zktest.NewServer(t), "envi")
	require.Regexp(t, `^Environment:\nzookeeper.version=3\.9\.6-\S+, built on `, text)
	for _, line := range []string{"java.version=.+", "host.name=.+", "os.name=.+", "user.dir=.+", `os.memory.total=\d+MB`} {
		require.Regexp(t, "(?m)^"+line+"$", text)
	}
	require.Regexp(t, `^datadir_size: \d+\nlogdir_size: \d+\n$`, word(t, zktest.NewServer(t), "dirs"))
}

func TestWordsCanBeRefused(t *testing.T) {
	allow := func(words string) *zktest.Server {
		return zktest.NewServer(t, zktest.WithProperties(map[string]string{"4lw.commands.whitelist": words}))
	}
	s := allow("srvr, envi")
	require.Contains(t, word(t, s, "srvr"), "Mode: standalone")
	require.Contains(t, word(t, s, "envi"), "zookeeper.version")
	for _, refused := range []string{"ruok", "dump", "stmk"} {
		require.Equal(t, refused+" is not executed because it is not in the whitelist.\n", word(t, s, refused))
	}
	all := allow("*")
	require.Equal(t, "imok", word(t, all, "ruok"))
	require.Equal(t, "306", word(t, all, "gtmk"))
	require.Equal(t, "rw", word(t, all, "isro"))
	require.Contains(t, word(t, all, "stat"), "Zxid: 0x")
	require.Contains(t, word(t, allow(""), "srvr"), "whitelist")
}
