//go:build unix && !linux

package main

import "os/exec"

// endWithUs does nothing: only Linux can kill a command when its parent is killed.
func endWithUs(*exec.Cmd) {}

// descendants returns none: only Linux lists them.
func descendants(int) []int { return nil }
