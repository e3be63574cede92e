package timeline

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRecorder_DropsTheOldestRequests(t *testing.T) {
	r := New(3)
	end := r.Begin(Entry{Kind: Hold, Lane: "a", What: "/l"})
	for _, op := range []string{"1", "2", "3", "4", "5"} {
		r.Add(time.Now(), Entry{Kind: Request, Session: "0x1", What: op})
	}
	entries, dropped := r.Entries()
	assert.Equal(t, 2, dropped)
	require.Len(t, entries, 4)
	assert.Equal(t, Hold, entries[0].Kind, "what lasts stays")
	assert.Equal(t, Open, entries[0].Dur)
	assert.Equal(t, "3", entries[1].What)
	end("lost", true)
	end("again", false)
	entries, _ = r.Entries()
	assert.Equal(t, "lost", entries[0].Result)
	assert.True(t, entries[0].Bad)
	require.Len(t, r.Last(2), 2)
}

func TestRecorder_Put(t *testing.T) {
	r := New(10)
	r.Put(Entry{At: time.Hour, Dur: time.Minute, Kind: Hold, Lane: "a", What: "/l"})
	entries, _ := r.Entries()
	assert.Equal(t, time.Hour+time.Minute, r.now(entries))
}

func TestRecorder_Owns(t *testing.T) {
	r := New(10)
	r.Connected("server", 1, time.Second)
	r.Owns("a", 1)
	r.Owns("b", 1) // the first one counts
	r.Disconnected(1, "connection lost")
	r.Connected("server 2", 1, time.Second)
	r.Ended(1, 7, true)
	r.Ended(1, 7, true) // another member
	entries, _ := r.Entries()
	require.Len(t, entries, 3)
	for _, e := range entries {
		assert.Equal(t, "a", e.Lane, e)
		assert.NotEqual(t, Open, e.Dur, e)
	}
	assert.Equal(t, "expired", entries[0].Result)
}

func TestRecorder_Nil(t *testing.T) {
	var r *Recorder
	r.Add(time.Now(), Entry{})
	r.Begin(Entry{})("", false)
	r.Connected("", 1, 0)
	r.Disconnected(1, "")
	r.Ended(1, 1, true)
	r.Owns("", 1)
	r.Faults("", []string{"x"})
	r.Leads("", true)
	assert.Empty(t, r.Last(1))
}

func TestCut(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 1<<20), strings.Repeat("é", MaxText), strings.Repeat("日", MaxText), "a" + strings.Repeat("日", MaxText)} {
		got := cut(text)
		assert.LessOrEqual(t, len(got), MaxText)
		assert.True(t, utf8.ValidString(got))
		assert.NotContains(t, got, "\uFFFD")
		assert.True(t, strings.HasSuffix(got, "…"))
	}
	assert.Equal(t, "a\uFFFDb", cut("a\xffb"))
	assert.Equal(t, `a\x00\x1b\n\u2028`, cut("a\x00\x1b\n\u2028"))
	assert.Equal(t, "plain", cut("plain"))
}

// foreign are texts that a client may use.
var foreign = []string{`</script><img src=x onerror=alert(1)>`, "<!--<script>", "a\x00\x1b[2J\u2028", "\xff\xfe", `"&'`, strings.Repeat("x", 1<<20)}

// TestPage_ForeignText: texts of clients cannot end the script or begin an element.
func TestPage_ForeignText(t *testing.T) {
	r := New(100)
	for _, text := range foreign {
		r.Add(time.Now(), Entry{Kind: Request, Lane: text, Session: "0x1", What: text, Path: "/" + text, Result: text})
	}
	var page bytes.Buffer
	require.NoError(t, r.WriteHTML(&page, foreign[0]))
	assert.NotContains(t, page.String(), "<img")
	assert.Equal(t, 2, strings.Count(page.String(), "</script>"))
	assert.Less(t, page.Len(), 100<<10)
	_, data, _ := strings.Cut(page.String(), `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	var c content
	require.NoError(t, json.Unmarshal([]byte(data), &c))
	require.Len(t, c.Entries, len(foreign))
	assert.Equal(t, "/"+foreign[0], c.Entries[0].Path, "the page's script has the text as it is")
}

func TestPicture(t *testing.T) {
	r := New(100)
	for _, text := range foreign {
		r.Begin(Entry{Kind: Hold, Lane: text, What: text})(text, true)
		r.Add(time.Now(), Entry{Kind: Request, Session: "0x1", What: "create", Zxid: 5})
		r.Add(time.Now(), Entry{Kind: Watch, Session: "0x2", What: "created", Zxid: 5})
	}
	r.Connected("server 1", 1, time.Second)
	r.Faults("server 1", []string{"pause"})
	r.Leads("server 1", true)
	var picture bytes.Buffer
	require.NoError(t, r.WriteSVG(&picture, foreign[0]))
	d := xml.NewDecoder(&picture)
	elements := make(map[string]int)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
	assert.Zero(t, elements["img"])
	assert.Zero(t, elements["script"])
	assert.NotZero(t, elements["rect"])
	var empty bytes.Buffer
	require.NoError(t, New(1).WriteSVG(&empty, "empty"))
}
