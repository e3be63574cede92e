// Package transcript keeps documents true: it runs the shell commands of a document, and compares
// their output with the document.
package transcript

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Check runs the commands in the console blocks of a Markdown file, each in its own shell with env.
// The test fails if the output of a command differs from the output in the file.
//
// A line that begins with "$ " is a command. The lines up to the next command are its output. In
// the output, … stands for any text within a line, and on its own line for any lines.
func Check(t *testing.T, file string, env []string) {
	t.Helper()
	blocks := Blocks(t, file, "console")
	require.NotEmpty(t, blocks, "%s shows nothing", file)
	for _, block := range blocks {
		for i, step := range steps(block) {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", step.command)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			if _, exited := err.(*exec.ExitError); err != nil && !exited {
				require.NoError(t, err)
			}
			assert.Regexp(t, step.pattern(), string(out), "%s: step %d: $ %s", file, i+1, step.command)
		}
	}
}

// Blocks are the fenced blocks of a Markdown file that are in this language, in order.
func Blocks(t *testing.T, file, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	return blocks
}

// step is a command and its expected output.
type step struct{ command, out string }

func steps(block string) (all []step) {
	for line := range strings.Lines(block) {
		if command, found := strings.CutPrefix(line, "$ "); found {
			all = append(all, step{command: strings.TrimSpace(command)})
		} else if n := len(all); n > 0 {
			all[n-1].out += line
		}
	}
	return all
}

// pattern is the regular expression of what should be printed.
func (s step) pattern() string {
	var p strings.Builder
	p.WriteString(`\A`)
	for line := range strings.Lines(s.out) {
		if line == "…\n" {
			p.WriteString(`(?s:.*)`)
			continue
		}
		p.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `[^\n]*`))
	}
	p.WriteString(`\z`)
	return p.String()
}
