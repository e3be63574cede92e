package zktest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/internal/test/testbed/ensemble"
	"github.com/gocurator/curator/zktest"
)

// TestQuotasAreThoseOfARealServer sends the same random operations under quotas to this package's
// server and to a real one, and compares the answers and the counts. It also does so with the super
// user, and with the four-letter words that this server prints.
func TestQuotasAreThoseOfARealServer(t *testing.T) {
	repeatable(t)
	flags := ensemble.WithEnv("JVMFLAGS", "-Dzookeeper.enforceQuota=true -Dznode.container.checkIntervalMs=86400000 "+
		"-Dzookeeper.DigestAuthenticationProvider.superDigest="+zktest.Digest("super:secret"))
	compareQuotas(t, ensemble.New(t, ensemble.WithServers(1), flags).Servers()[0])
}

// compareQuotas compares our server with one at this address. Both are new.
func compareQuotas(t *testing.T, address string) {
	ours := zktest.NewServer(t, zktest.WithVersion(imageVersion(t, address)), zktest.WithProperties(map[string]string{"enforceQuota": "true", "DigestAuthenticationProvider.superDigest": zktest.Digest("super:secret")}))
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		d := quotaDrawing{t, fmt.Sprintf("/run%d", run)}
		a, b := at(t, address, nil), at(t, ours.Addr(), nil)
		defer a.conn.Close()
		defer b.conn.Close()
		for i := range rapid.IntRange(5, 60).Draw(t, "operations") {
			name, op, body := d.step()
			want, got := d.do(a, op, body), d.do(b, op, body)
			if want != got {
				t.Fatalf("step %d, %s:\nreal: %s\nours: %s", i, name, want, got)
			}
			t.Logf("%s = %s", name, want)
		}
	})
	for _, credentials := range []string{"super:secret", "super:wrong"} {
		require.Equal(t, super(t, address, credentials), super(t, ours.Addr(), credentials), credentials)
	}
	require.Equal(t, wordsOf(t, address), wordsOf(t, ours.Addr()))
}

// quotaDrawing draws operations on a few nodes below root, two of which may have a quota.
type quotaDrawing struct {
	t    *rapid.T
	root string
}

func (d quotaDrawing) pick(what string, from ...string) string {
	return rapid.SampledFrom(from).Draw(d.t, what)
}

func (d quotaDrawing) step() (name string, op int32, body buffer) {
	node := func() string { return d.root + d.pick("node", "", "/a", "/b", "/a/c", "/a/d", "/a/c/e") }
	data := func() string { return d.pick("data", "", "1", "four", "tenletters") }
	quotaDir := "/zookeeper/quota" + d.root
	path, value := node(), data()
	switch kind := d.pick("kind", "create", "create", "create", "set", "set", "delete", "multi", "quota", "quota", "limits", "stats", "unlimit"); kind {
	case "set":
		return fmt.Sprintf("set %s %q", path, value), opSetData, setBody(path, value)
	case "delete":
		return "delete " + path, opDelete, deletion(path)
	case "multi":
		var parts []buffer
		for range rapid.IntRange(1, 3).Draw(d.t, "parts") {
			node := node()
			name += " " + node
			parts = append(parts, part(opCreate, creationOf(node, data())))
		}
		return "multi" + name, opMulti, multiOf(parts...)
	case "quota":
		path = quotaDir + d.pick("part", "", "/a", "/zookeeper_limits", "/zookeeper_stats", "/a/zookeeper_limits", "/a/zookeeper_stats")
		value = d.limits()
	case "limits":
		path, value = quotaDir+d.pick("part", "/zookeeper_limits", "/a/zookeeper_limits"), d.limits()
		return fmt.Sprintf("set %s %q", path, value), opSetData, setBody(path, value)
	case "stats":
		path, value = quotaDir+d.pick("part", "/zookeeper_stats", "/a/zookeeper_stats"), d.pick("stats", "count=0,bytes=0", "count=1,bytes=2")
		return fmt.Sprintf("set %s %q", path, value), opSetData, setBody(path, value)
	case "unlimit":
		path = quotaDir + d.pick("part", "/zookeeper_limits", "/zookeeper_stats", "/a/zookeeper_limits", "/a/zookeeper_stats")
		return "delete " + path, opDelete, deletion(path)
	}
	return fmt.Sprintf("create %s %q", path, value), opCreate, creationOf(path, value)
}

// limits are valid, for a real server may die of others.
func (d quotaDrawing) limits() string {
	return d.pick("limits", "count=1,bytes=1", "countHardLimit=3", "byteHardLimit=12", "count=2,bytes=-1;byteHardLimit=6;countHardLimit=4",
		"countHardLimit=-1", "count=1,bytes=1;byteHardLimit=-1;countHardLimit=2;;", "other=1;countHardLimit=+2", "countHardLimit=0;byteHardLimit=0", "")
}

// do sends a request and prints the answer, and all that is counted.
func (d quotaDrawing) do(c *rawClient, op int32, body buffer) string {
	r, err := c.call(op, body)
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	out := fmt.Sprintf("code %d", r.code)
	if op == opMulti {
		out += fmt.Sprintf(" %x", r.body)
	}
	for _, path := range []string{"", "/a"} {
		r, err := c.call(opGetData, watched("/zookeeper/quota"+d.root+path+"/zookeeper_stats", false))
		if err != nil {
			d.t.Fatalf("%v", err)
		}
		if r.code == 0 {
			body := &cursor{b: r.body}
			out += fmt.Sprintf("; counted %s", body.data())
			for range 4 {
				body.long() // zxids and times
			}
			out += fmt.Sprintf(" at version %d", body.int())
		}
	}
	return out
}

// super prints what a client may do with nodes that are closed to it.
func super(t *testing.T, address, credentials string) (seen []string) {
	c := at(t, address, nil)
	closed := "/closed-" + strings.ReplaceAll(credentials, ":", "-")
	call := func(name string, op int32, body buffer) *cursor {
		r := ask(t, c, op, body)
		seen = append(seen, fmt.Sprintf("%s: %d", name, r.code))
		return &cursor{b: r.body}
	}
	call("auth", opAuth, digest(credentials))
	seen = append(seen, call("who", opWhoAmI, nil).who())
	call("create", opCreate, creation(closed, nil, 31, "digest", "no:body", 0))
	call("set", opSetData, setBody(closed, "x"))
	call("get", opGetData, watched(closed, false))
	seen = append(seen, call("getACL", opGetACL, pathOf(closed)).acls())
	call("child", opCreate, create(closed+"/child", 0))
	call("check", opSetData, setBody("/zookeeper/config", ""))
	call("access list of super", opCreate, creation(closed+"/super", nil, 31, "super", "", 0))
	call("reconfig", opReconfig, reconfiguration)
	call("delete child", opDelete, deletion(closed+"/child"))
	call("open", opSetACL, *ptr(pathOf(closed)).int(1).int(31).text("world").text("anyone").int(-1))
	call("delete", opDelete, deletion(closed))
	return seen
}

// wordsOf prints four-letter words in a state that is the same on both servers, but for ids,
// times and addresses.
func wordsOf(t *testing.T, address string) (seen []string) {
	c := at(t, address, nil)
	mustCreate(t, c, "/words", 0)
	mustCreate(t, c, "/words/owned", 1)
	for _, path := range []string{"/words", "/none"} {
		ask(t, c, opExists, watched(path, true))
	}
	ask(t, c, opAddWatch, addWatch("/words/owned", 1))
	ask(t, c, opGetChildren, watched("/words", true))
	own := fmt.Sprintf("%#x", c.id)
	volatile := regexp.MustCompile(`\w{3} \w{3} \d\d [\d:]+ \S+ \d{4}|=?0x[0-9a-f]+|\d+(?:\.\d+){3}:\d+|\d+ expire|\(\d+\)/\(\d+\)|=\d+`)
	for _, word := range []string{"ruok", "isro", "wchs", "wchc", "wchp", "crst", "srst", "dump", "cons", "gtmk"} {
		text := strings.ReplaceAll(wordAt(t, address, word), own, "ours")
		lines := map[string]bool{} // in any order, and other sessions may still be there
		for line := range strings.Lines(text) {
			lines[volatile.ReplaceAllString(line, "…")] = true
		}
		seen = append(seen, fmt.Sprintf("%s: %v", word, lines))
	}
	return seen
}
