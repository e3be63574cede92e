package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// blocks is in the environment of a test binary that waits for a signal and then blocks.
const blocks = "CLI_TEST_BLOCKS"

func TestMain(m *testing.M) {
	if os.Getenv(blocks) != "" {
		ctx, stop := Interrupted(context.Background())
		defer stop()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("interrupted")
		select {}
	}
	os.Exit(m.Run())
}

// TestSecondSignal ends a program that does not end.
func TestSecondSignal(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), blocks+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := func(want string) {
		got := make([]byte, len(want)+1)
		_, err := io.ReadFull(out, got)
		require.NoError(t, err)
		require.Equal(t, want+"\n", string(got))
	}
	line("ready")
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	line("interrupted")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	assert.Equal(t, ExitSignal+int(syscall.SIGTERM), cmd.ProcessState.ExitCode())
}

// TestSecondSignal_OfACommand: a signal that ended the command may be read after the command has
// ended. The program then still releases or unregisters.
func TestSecondSignal_OfACommand(t *testing.T) {
	var busy atomic.Bool
	busy.Store(true)
	asked := make(chan bool, 1)
	ctx, stop := InterruptedUnless(t.Context(), func(os.Signal) bool { return false }, func() bool {
		asked <- true
		return busy.Load()
	})
	defer stop()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	<-asked
	<-ctx.Done()
	busy.Store(false)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-asked // the program is not ended: the next signal would end it
	got, _ := SignalOf(context.Cause(ctx))
	assert.Equal(t, syscall.SIGINT, got)
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]string{
		"10": "missing unit, as in 10s", "1.5": "missing unit", "-1s": "negative", "soon": "a number with a unit", "": "a number with a unit",
	} {
		var d time.Duration
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		Duration(fs, &d, "wait", "w", time.Second, "")
		assert.ErrorContains(t, fs.Parse([]string{"--wait=" + text}), want, text)
		assert.Equal(t, time.Second, d)
		require.NoError(t, fs.Parse([]string{"-w", "1m"}))
		assert.Equal(t, time.Minute, d)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain text": "plain text", "": `""`, "a\tb": `"a\tb"`, "\x1b[2J": `"\x1b[2J"`, "\u202e": `"\u202e"`, "\xff": `"\xff"`, `a"b`: `"a\"b"`, "日本": "日本",
	} {
		assert.Equal(t, want, Printable(text))
	}
	for text, want := range map[string]string{
		"": "null", "{ \"a\":\n1 }": `{"a":1}`, "\"\u009b\"": `"\u009b"`, "\"\U000e0001\"": `"\udb40\udc01"`, "no JSON\n": `"no JSON\n"`,
	} {
		assert.Equal(t, want, PrintableJSON(json.RawMessage(text)))
	}
	assert.Equal(t, `two\nlines \x1b[2J`, OneLine("two\nlines \x1b[2J"))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestExecute(t *testing.T) {
	execute := func(out io.Writer, args ...string) (code int, stderr string) {
		said := &bytes.Buffer{}
		a := &App{Name: "prog", Out: out, Err: said}
		root := &cobra.Command{Short: "A program"}
		root.AddCommand(&cobra.Command{Use: "print", Args: cobra.NoArgs, Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "text") }},
			&cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return errors.New("line one\nline two") }},
			&cobra.Command{Use: "exit", RunE: func(*cobra.Command, []string) error { return &Exit{Code: 66} }},
			&cobra.Command{Use: "die", RunE: func(*cobra.Command, []string) error { return fmt.Errorf("wrapped: %w", Signaled(syscall.SIGTERM)) }})
		return a.Execute(context.Background(), a.Prepare(root), args), said.String()
	}
	for _, c := range []struct {
		line string
		out  io.Writer
		code int
		says string
	}{
		{"print", io.Discard, 0, ""},
		{"print", broken{}, ExitUnavailable, "prog: write output: disk full\n"},
		{"version", broken{}, ExitUnavailable, "prog: write output: disk full\n"},
		{"--help", broken{}, ExitUnavailable, "prog: write output: disk full\n"},
		{"fail", io.Discard, ExitUnavailable, `prog: line one\nline two` + "\n"},
		{"exit", io.Discard, 66, ""},
		{"die", io.Discard, 143, ""},
		{"", io.Discard, ExitUsage, "prog: a command is missing; prog --help lists the flags\n"},
		{"prinnt", io.Discard, ExitUsage, `prog: unknown command "prinnt" for "prog"; prog --help lists the flags` + "\n"},
		{"print x", io.Discard, ExitUsage, `prog: unknown command "x" for "prog print"; prog print --help lists the flags` + "\n"},
		{"print --x", io.Discard, ExitUsage, "prog: unknown flag: --x; prog print --help lists the flags\n"},
		{"completion csh", io.Discard, ExitUsage, "prog: completion requires a shell: bash, zsh, fish or powershell; prog completion --help lists the flags\n"},
		{"man x", io.Discard, ExitUsage, `prog: unknown command "x"; prog man --help lists the flags` + "\n"},
	} {
		code, said := execute(c.out, strings.Fields(c.line)...)
		assert.Equal(t, c.code, code, c.line)
		assert.Equal(t, c.says, said, c.line)
	}
	dir := filepath.Join(t.TempDir(), "a", "new")
	code, said := execute(io.Discard, "man", "--dir", dir)
	require.Zero(t, code, said)
	page, err := os.ReadFile(filepath.Join(dir, "prog-print.1"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "PROG-PRINT")
}
