package transcript

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const document = "text\n\n```console\n$ echo one; echo two >&2\none\ntwo\n$ exit 3\n$ seq 5\n1\n…\n5\n$ echo pid $$\npid …\n```\n\n```go\nx := 1\n```\n"

func TestDocumentThatIsTrue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	require.NoError(t, os.WriteFile(file, []byte(document), 0o600))
	Check(t, file, os.Environ())
	assert.Equal(t, []string{"x := 1\n"}, Blocks(t, file, "go"))
}

func TestOutputThatIsNotTheOneShown(t *testing.T) {
	for _, c := range []struct{ shown, printed string }{
		{"one\n", "two\n"},
		{"one\n", "one\ntwo\n"},
		{"one\n", ""},
		{"a … c\n", "a b\nc\n"},
		{"1\n…\n5\n", "1\n2\n"},
		{"a.c\n", "abc\n"},
	} {
		assert.NotRegexp(t, step{out: c.shown}.pattern(), c.printed)
	}
}
