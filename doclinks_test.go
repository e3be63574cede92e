package curator_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinksInDocumentsWork looks for the files that our documents point to.
func TestLinksInDocumentsWork(t *testing.T) {
	documents := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		documents++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			target, err := url.Parse(m[1])
			if !assert.NoError(t, err, path) || target.IsAbs() {
				continue
			}
			file := filepath.Join(filepath.Dir(path), target.Path)
			if target.Path == "" {
				file = path
			}
			text, err := os.ReadFile(file)
			if !assert.NoError(t, err, "%s points to %s", path, m[1]) || target.Fragment == "" {
				continue
			}
			assert.Contains(t, anchors(string(text)), target.Fragment, "%s points to %s", path, m[1])
		}
		return nil
	}))
	require.Positive(t, documents)
}

// anchors are the names that headings have on GitHub.
func anchors(text string) (names []string) {
	for line := range strings.Lines(text) {
		if heading, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); found && strings.HasPrefix(line, "#") {
			name := strings.ToLower(strings.TrimSpace(heading))
			name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}
