package docs_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks for leaked goroutines. Tests that read files change to the root of the repository
// themselves: the go command does not see a change of directory that TestMain makes, and would take
// the result of a test from its cache although a file that it has read has changed.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
