package main

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version prints the version.
type version struct{}

func (*version) flags(*flag.FlagSet) {}

func (*version) main(t *tool, args []string) error {
	if len(args) > 0 {
		return usageError("unexpected argument %q", args[0])
	}
	_, err := fmt.Fprintf(t.out, "zklock %s (%s, %s/%s)\n", moduleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// moduleVersion is that of the module, as go install has it, and of a build in its repository the commit.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
