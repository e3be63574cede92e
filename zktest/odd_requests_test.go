package zktest_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/zktest"
)

// TestOddRequests compares the answers to requests that no correct client sends with a real
// server's.
func TestOddRequests(t *testing.T) {
	eachServer(t, func(t *testing.T, address, version string) {
		if version == "" {
			version = imageVersion(t, address)
		}
		for name, test := range map[string]func(*testing.T, string, string){
			"addresses":       oddAddresses,
			"vectors":         oddVectors,
			"not UTF-8":       notUTF8,
			"numbers of ping": numbersOfPing,
			"nodes":           countedNodes,
		} {
			t.Run(name, func(t *testing.T) { test(t, address, version) })
		}
	}, nil)
}

// eachServer runs a test on a server of each version, and on a real one.
func eachServer(t *testing.T, test func(t *testing.T, address, version string), properties map[string]string) {
	for _, v := range []string{"3.8.0", "3.9.6"} {
		t.Run(v, func(t *testing.T) {
			test(t, zktest.NewServer(t, zktest.WithVersion(v), zktest.WithProperties(properties)).Addr(), v)
		})
	}
	t.Run("real", func(t *testing.T) {
		address := ensemble.New(t, ensemble.WithServers(1), ensemble.WithProperties(properties)).Servers()[0]
		test(t, address, "")
	})
}

func oddAddresses(t *testing.T, address string, version string) {
	c := dial(t, address)
	valid := []string{"1.2.3.04", "01.2.3.4", "0000000001.2.3.4", "1.2.3.+4", "1.2.3.-0", "1.2.3.4/08", "1.2.3.4/+8", "1.2.3.4/-0"}
	invalid := []string{
		"1.2.3.-1", "1.2.3.256", "1.2.3. 4", "1.2.3.4.", "1.2.3.4.5", "1..3.4", "1.2.3.4/-1", "1.2.3.4/ 8", "/8", "1.2.3.99999999999",
		"00000::1", "1::2::3", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "::1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "fe80::1%lo", "g::1", ":1", "1:", "[::1]",
	}
	six := []string{"::", "::1", "::1/064", "1:2:3:4:5:6:7:08", "1:2:3:4:5:6:7::", "+1::1", "-0::1", "FFFF::1"}
	if version == "3.8.0" {
		invalid = append(invalid, six...)
	} else {
		valid = append(valid, six...)
	}
	made := 0
	create := func(id string) (path string, code int32) {
		made++
		path = fmt.Sprintf("/address-%d", made)
		return path, ask(t, c, opCreate, creation(path, nil, 31, "ip", id, 0)).code
	}
	for _, id := range valid {
		_, code := create(id)
		assert.Zero(t, code, id)
	}
	for _, id := range invalid {
		_, code := create(id)
		assert.EqualValues(t, -114, code, id)
	}
	for id, allowed := range map[string]int32{"0.0.0.0/00": 0, "1.2.3.4/00": 0, "001.2.3.4": -102, "001.2.3.4/+8": -102} {
		path, _ := create(id)
		assert.Equal(t, allowed, ask(t, c, opGetData, watched(path, false)).code, id)
	}
	// The address of this client, whatever it is.
	_, who, _ := strings.Cut(whoAmI(t, c), "ip ")
	if parts := strings.Split(who, "."); len(parts) == 4 {
		path, _ := create("0" + strings.Join(parts, ".00"))
		assert.Zero(t, ask(t, c, opGetData, watched(path, false)).code, who)
	}
}

// whoAmI returns "ip" and the client's address.
func whoAmI(t *testing.T, c *rawClient) string {
	r := &cursor{b: ask(t, c, opWhoAmI, nil).body}
	for range r.int() {
		if scheme, user := r.text(), r.text(); scheme == "ip" {
			return "ip " + user
		}
	}
	return ""
}

func oddVectors(t *testing.T, address string, _ string) {
	c := dial(t, address)
	for i, length := range []int32{-2, -3, -1 << 31} {
		path := fmt.Sprintf("/vector-%d", i)
		for _, op := range []int32{opCreate, opCreate2} {
			assert.EqualValues(t, -114, ask(t, c, op, *ptr(pathOf(path)).bytes(nil).int(length).int(0)).code)
		}
		assert.EqualValues(t, -114, ask(t, c, opSetACL, *ptr(pathOf("/zookeeper")).int(length).int(-1)).code)
		assert.Zero(t, ask(t, c, opSetWatches, *new(buffer).long(0).int(length).int(length).int(length)).code)
		r := &cursor{b: ask(t, c, opMulti, multiOf(part(opCreate, *ptr(pathOf(path)).bytes(nil).int(length).int(0)))).body}
		r.take(9)
		assert.EqualValues(t, -114, r.int(), "the result of the part of a multi")
		for _, body := range []buffer{*new(buffer).int(length).bytes(nil).int(0).int(0), *ptr(pathOf(path)).int(length).int(0).int(0)} {
			assert.EqualValues(t, -5, ask(t, c, opCreate, body).code, "of a string or of data")
		}
	}
	assert.EqualValues(t, -5, ask(t, c, opSetWatches, *new(buffer).long(0).int(-1).int(-1).int(-1)).code)
}

func notUTF8(t *testing.T, address string, _ string) {
	c := dial(t, address)
	const r = "\ufffd"
	made := 0
	for sent, read := range map[string]string{
		"\xff": r, "\xff\xff": r + r, "\xc0\x80": r + r, "\x80": r, "\xc3": r, "\xc3x": r + "x", "\xe2\x82": r, "\xe2\x82x": r + "x", "\xe2x": r + "x",
		"\xe0\x80": r + r, "\xe0\x80\x80": r + r + r, "\xf0\x9f": r, "\xf0\x9fx": r + "x", "\xf0\x9f\x98xy": r + "xy", "\xf0\x90\x80x": r + "x", "\xe0\xa0x": r + "x", "\xf0\x80\x80\x80": r + r + r + r,
		"\xf4\x90\x80\x80": r + r + r + r, "\xf5\x80\x80\x80": r + r + r + r, "\xf8\x80": r + r,
		"\xed\xa0": r, "\xed\xa0x": r + "x", "\xed\xa0\x80": r, "\xed\xa0\x80\xed\xb0\x80": r + r, "\xed\xbf\xbf\xff": r + r,
		"\U0001F600": "\xed\xa0\xbd\xed\xb8\x80", // two surrogates
	} {
		t.Run(fmt.Sprintf("%q", sent), func(t *testing.T) {
			made++
			answer := &cursor{b: ask(t, c, opSync, pathOf("/"+sent)).body}
			assert.Equal(t, "/"+read, answer.text(), "of a sync")
			c.events = nil
			ask(t, c, opSetWatches, *new(buffer).long(0).texts("/" + sent).texts().texts())
			assert.Equal(t, []string{"event 2 /" + read}, c.events)
			path := fmt.Sprintf("/text-%d", made)
			list := ptr(pathOf(path)).bytes(nil).int(2).int(31).text("digest").text(sent + ":x").int(31).text("world").text("anyone")
			require.Zero(t, ask(t, c, opCreate, *list.int(0)).code)
			answer = &cursor{b: ask(t, c, opGetACL, pathOf(path)).body}
			assert.Equal(t, "[31 digest "+read+":x, 31 world anyone]", answer.acls())
			assert.EqualValues(t, -8, ask(t, c, opCreate, create("/"+sent, 0)).code)
			assert.EqualValues(t, -101, ask(t, c, opExists, watched("/"+sent, false)).code)
		})
	}
}

func numbersOfPing(t *testing.T, address string, _ string) {
	for _, number := range []int32{7, 0, -1, -4, -2} {
		c := dial(t, address)
		require.NoError(t, c.write(*new(buffer).int(number).int(opPing)))
		answer, err := c.answer(-2)
		require.NoError(t, err, "ping with number %d", number)
		require.Zero(t, answer.code)
		require.NoError(t, c.write(append(*new(buffer).int(-9).int(opExists), watched("/", false)...)))
		require.NoError(t, testbed.Err(c.answer(-9)), "others keep the number that they have")
	}
}

func countedNodes(t *testing.T, address string, _ string) {
	c := dial(t, address)
	count := func() (srvr, mntr int) {
		_, after, _ := strings.Cut(wordAt(t, address, "srvr"), "Node count: ")
		require.NoError(t, testbed.Err(fmt.Sscan(after, &srvr)))
		_, after, _ = strings.Cut(wordAt(t, address, "mntr"), "zk_znode_count\t")
		require.NoError(t, testbed.Err(fmt.Sscan(after, &mntr)))
		return srvr, mntr
	}
	r := &cursor{b: ask(t, c, opAllChildren, pathOf("/")).body}
	below := int(r.int())
	srvr, mntr := count()
	assert.Equal(t, below+2, srvr, "the root counts twice")
	assert.Equal(t, srvr, mntr)
}

func dial(t *testing.T, address string) *rawClient {
	t.Helper()
	return letIn(t, []string{address}, nil, conformanceTimeout)
}

// TestMonitor compares the rows that both have in mntr, and the form of their values, with a member
// of a real ensemble.
func TestMonitor(t *testing.T) {
	c := zktest.NewCluster(t, 3)
	leader := elected(t, c)
	for _, m := range c.Members() {
		t.Run("ours "+m.Addr(), func(t *testing.T) { monitor(t, m.Addr(), m == leader) })
	}
	alone := monitorRows(t, zktest.NewServer(t).Addr())
	assert.Equal(t, "standalone", alone["zk_server_state"])
	assert.NotContains(t, alone, "zk_peer_state")
	t.Run("real", func(t *testing.T) {
		e := ensemble.New(t)
		leader, err := e.Leader(t.Context())
		require.NoError(t, err)
		for i, address := range e.Servers() {
			monitor(t, address, i == leader)
		}
	})
}

func monitor(t *testing.T, address string, leads bool) {
	rows := monitorRows(t, address)
	for name, form := range map[string]string{
		"zk_uptime": `^\d+$`, "zk_open_file_descriptor_count": `^\d+$`, "zk_max_file_descriptor_count": `^\d+$`,
		"zk_version":      `^3\.\d\.\d.*, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC$`,
		"zk_peer_state":   map[bool]string{true: "^leading - broadcast$", false: "^following - broadcast$"}[leads],
		"zk_server_state": map[bool]string{true: "^leader$", false: "^follower$"}[leads],
	} {
		assert.Regexp(t, regexp.MustCompile(form), rows[name], name)
	}
}

func monitorRows(t *testing.T, address string) map[string]string {
	rows := make(map[string]string)
	for line := range strings.Lines(wordAt(t, address, "mntr")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		rows[name] = value
	}
	return rows
}

func TestMonitorShowsUptime(t *testing.T) {
	alone(t, func(t *testing.T, s *zktest.Server) {
		uptime := func() string {
			conn := testbed.Must(s.Dial("", "", 0))
			require.NoError(t, testbed.Err(io.WriteString(conn, "mntr")))
			text := testbed.Must(io.ReadAll(conn))
			_, after, _ := strings.Cut(string(text), "zk_uptime\t")
			value, _, _ := strings.Cut(after, "\n")
			return value
		}
		time.Sleep(time.Hour)
		require.Equal(t, "3600000", uptime())
		require.NoError(t, s.Restart())
		require.Equal(t, "0", uptime())
	})
}

func TestMonitorShowsFileDescriptors(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skipf("LEFT OUT, needs /proc: %v", err)
	}
	s := zktest.NewServer(t)
	number := func(row string) (n int) {
		require.NoError(t, testbed.Err(fmt.Sscan(monitorRows(t, s.Addr())[row], &n)))
		return n
	}
	before := number("zk_open_file_descriptor_count")
	for i := range 100 {
		f := testbed.Must(os.Create(filepath.Join(t.TempDir(), fmt.Sprint(i))))
		defer f.Close()
	}
	require.GreaterOrEqual(t, number("zk_open_file_descriptor_count"), before+50) // other tests close some
	require.Less(t, number("zk_open_file_descriptor_count"), number("zk_max_file_descriptor_count"))
}
