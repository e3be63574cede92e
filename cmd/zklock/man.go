package main

import (
	"flag"
	"fmt"
	"strings"
)

// man prints the manual page. It is made from the flags themselves.
type man struct{}

func (*man) flags(*flag.FlagSet) {}

// exitCodes are what the manual says of them.
var exitCodes = []struct {
	code int
	text string
}{
	{exitUsage, "a bad command line"},
	{exitNoLock, "ls, revoke: there is no lock at the path"},
	{exitUnavailable, "no server answers, or it refuses"},
	{exitLost, "the lock was lost while the command ran; elect campaigns again instead"},
	{exitNotAcquired, "not acquired in time; -E sets another code"},
	{exitConflict, "others use the path for another kind of lock, or for a semaphore with another -permits; revoke: the leader is no zklock"},
	{exitCannotRun, "the command cannot be run"},
	{exitNotFound, "the command is not there"},
}

func (*man) main(t *tool, args []string) error {
	if len(args) > 0 {
		return usageError("unexpected argument %q", args[0])
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`.TH ZKLOCK 1 "" "zklock %s"`, roff(moduleVersion()))
	line(".SH NAME\nzklock \\- run a command while holding a lock in ZooKeeper")
	line(".SH SYNOPSIS")
	for _, c := range subcommands() {
		line(".B zklock %s\n%s\n.br", c.name, roff(c.synopsis))
	}
	line(".SH DESCRIPTION\nzklock is flock for a cluster. The locks are those of Apache Curator: a job that zklock runs and a Java service exclude each other.")
	for _, c := range subcommands() {
		line(".SS zklock %s %s\n%s.", c.name, roff(c.synopsis), roff(c.does))
		for _, o := range c.options() {
			line(".TP\n.B %s\n%s%s", roff(strings.TrimSpace("-"+o.name+" "+o.value)), roff(o.usage), roff(o.defaultText()))
		}
	}
	line(".SH ENVIRONMENT")
	line(".TP\n.B ZKLOCK_SERVERS, ZKLOCK_NAMESPACE, ZKLOCK_AUTH, ZKLOCK_TLS, ZKLOCK_CACERT, ZKLOCK_CERT, ZKLOCK_KEY, ZKLOCK_TLS_SERVER_NAME, ZKLOCK_ACL\nstand for the flags of these names where these are not given. Every user can list the command lines of all processes, so credentials are better in ZKLOCK_AUTH, or in a file: \\-auth @file.")
	line(".TP\n.B ZKLOCK_PATH, ZKLOCK_NODE, ZKLOCK_TOKEN\nare what the command of run and elect finds: the path of the lock or the election, the path of its node, and its fencing token.")
	line(".SH EXIT STATUS\nrun and elect end with the status of the command, or with 128 and the number of the signal that ended it. hold ends with 0 when a signal or the end of its pipe has ended it, and with %d when it was asked to release the lock. Otherwise:", exitAsked)
	for _, e := range exitCodes {
		line(".TP\n.B %d\n%s", e.code, roff(e.text))
	}
	line(".SH SEE ALSO\n.BR flock (1)")
	_, err := fmt.Fprint(t.out, b.String())
	return err
}

// defaultText is the text for a default, if it is worth one.
func (o option) defaultText() string {
	switch o.byDefault {
	case "", "false", "0", "0s":
		return ""
	}
	return " (default " + o.byDefault + ")"
}

// roff is text as it is, also where it looks like a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
