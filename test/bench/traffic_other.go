//go:build !linux

package main

import "syscall"

func moved(syscall.RawConn) int64 { return 0 }

func resident() (int64, error) { return 0, nil }
