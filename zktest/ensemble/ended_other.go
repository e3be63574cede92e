//go:build !unix

package ensemble

import "os"

// ended reports whether no process has this id. On Windows, FindProcess opens the process.
func ended(pid int) bool {
	process, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	process.Release()
	return false
}
