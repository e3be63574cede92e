// Package jvm runs programs in Java on this machine, for tests beside Java's libraries.
//
// The jars come from the folder in CURATOR_TEST_JARS: a file <set>.cp names the jars of a set,
// which are in its folder jars. Without the variable Maven resolves the pom of the set. Without
// Maven, a test says that it is left out.
package jvm

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Variable is the environment variable with the folder of the jars.
const Variable = "CURATOR_TEST_JARS"

// Classes is a class path.
type Classes string

// Resolve returns the class path of a set, such as "dubbo", whose pom is pom. It skips the test if
// there is no JDK, or no jars.
func Resolve(t *testing.T, set, pom string) Classes {
	t.Helper()
	if _, err := exec.LookPath("javac"); err != nil {
		t.Skipf("LEFT OUT, needs a JDK: %v", err)
	}
	if dir := os.Getenv(Variable); dir != "" {
		data, err := os.ReadFile(filepath.Join(dir, set+".cp"))
		require.NoError(t, err, "%s=%s", Variable, dir)
		var jars []string
		for name := range strings.FieldsSeq(string(data)) {
			jar := filepath.Join(dir, "jars", name)
			require.FileExists(t, jar)
			jars = append(jars, jar)
		}
		return Classes(strings.Join(jars, string(os.PathListSeparator)))
	}
	file := filepath.Join(t.TempDir(), "classpath")
	maven := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "-f", pom, "dependency:build-classpath", "-Dmdep.outputFile="+file)
	if out, err := maven.CombinedOutput(); err != nil {
		t.Skipf("LEFT OUT, needs the jars of %s in %s, or Maven: %v %s", set, Variable, err, firstLine(out))
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return Classes(strings.TrimSpace(string(data)))
}

func firstLine(out []byte) []byte {
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return line
}

// Compile compiles sources, and returns the class path with the result and the folders of
// resources.
func (c Classes) Compile(t *testing.T, sources []string, resources ...string) Classes {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"-parameters", "-nowarn", "-d", dir, "-cp", string(c)}, sources...)
	out, err := exec.CommandContext(t.Context(), "javac", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return Classes(strings.Join(append(append([]string{dir}, resources...), string(c)), string(os.PathListSeparator)))
}

// Process is a running program. It is killed at the end of the test.
type Process struct {
	Lines chan string // its output; closed when it has exited
	Stdin io.Writer
	cmd   *exec.Cmd
	ended func() error
}

// Start starts a program. Options of the JVM are in front of main.
func (c Classes) Start(t *testing.T, args ...string) *Process {
	t.Helper()
	cmd := exec.Command("java", append([]string{"-XX:TieredStopAtLevel=1", "-Xmx200m", "-cp", string(c)}, args...)...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	p := &Process{Lines: make(chan string, 10000), Stdin: stdin, cmd: cmd}
	var read sync.WaitGroup
	read.Go(func() { // ends with the process
		defer close(p.Lines)
		for text := bufio.NewScanner(out); text.Scan(); {
			t.Logf("java: %s", text.Text())
			select {
			case p.Lines <- text.Text():
			default: // a test that reads nothing misses lines
			}
		}
	})
	p.ended = sync.OnceValue(func() error {
		read.Wait()
		return cmd.Wait()
	})
	t.Cleanup(p.Kill)
	return p
}

// Kill kills the process with SIGKILL and waits until it has exited.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.ended()
}

// Await returns the rest of the first line that begins so.
func (p *Process) Await(t *testing.T, start string) string {
	t.Helper()
	for line := range p.Lines {
		if rest, found := strings.CutPrefix(line, start); found {
			return strings.TrimSpace(rest)
		}
	}
	require.FailNow(t, fmt.Sprintf("the program ended without %q", start))
	return ""
}
