package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/internal/clitest"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// TestCtrlC: the key reaches zkdiscover and its command. zkdiscover unregisters, and does not send
// the command a second SIGINT.
func TestCtrlC(t *testing.T) {
	server := zktest.NewServer(t)
	master, slave := clitest.Terminal(t)
	defer slave.Close()
	p := &program{Cmd: command(t, server, "register", "--name", "orders", "--id", "me", "--address", "127.0.0.1", "--port", "1", "--",
		"sh", "-c", `trap 'echo int >> "$DIR/ints"' INT; `+sayPid+`while [ ! -e "$DIR/go" ]; do sleep 0.01; done; exit 4`), dir: t.TempDir()}
	p.Env = append(p.Env, "DIR="+p.dir)
	p.Stdin, p.Stdout, p.Stderr = slave, slave, slave
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, p.Start())
	p.pid(t, "pid")
	testbed.Eventually(t, func() bool { return server.Exists("/services/orders/me") }, "registered")
	require.NoError(t, testbed.Err(master.WriteString("\x03")))
	ints := func() int {
		text, _ := os.ReadFile(filepath.Join(p.dir, "ints"))
		return strings.Count(string(text), "int\n")
	}
	testbed.Eventually(t, func() bool { return ints() > 0 && !server.Exists("/services/orders/me") }, "unregistered")
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600))
	assert.Equal(t, 4, p.end())
	assert.Equal(t, 1, ints())
}
