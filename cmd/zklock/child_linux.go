package main

import "syscall"

// endWithUs has the kernel kill the child if we are killed: there would be nobody left to end it when the
// servers give the lock away.
func endWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
