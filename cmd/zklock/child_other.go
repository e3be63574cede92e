//go:build unix && !linux

package main

import "syscall"

// endWithUs would have the child killed if we are. Only Linux can do that.
func endWithUs(*syscall.SysProcAttr) {}
