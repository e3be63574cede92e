// Package versions builds a program against an earlier version of this library and against the
// checkout, and lets both use the same locks. README.md says how to run it.
package versions
