// Package errlist reads the lists of errors in doc comments, and finds errors in them.
//
// A list is a line that ends with "Errors are" and one bullet for each error. A bullet names an
// error and its condition:
//
//	// Errors are
//	//   - [ErrTaken] if another client owns the node;
//	//   - the error of ctx if ctx is done;
//	//   - the server's errors, such as zk.ErrNoAuth if access is denied.
//
// An error is a name such as ErrTaken or zk.ErrNoAuth, the name of an error type, or one of
//
//	the error of ctx         an error of package context
//	the error of f           an error that the test has named: of a function of the user
//	the cause of the loss    framework.ErrLost
//	the server's errors      a refusal by the server, but not a missing or existing node,
//	                         another version, or a node with children
//
// A name behind "wraps" describes the error before it: it is not enough alone.
package errlist

import (
	"regexp"
	"strings"
)

// List is the list of errors of a doc comment.
type List struct {
	Bullets []string // one line each, without the dash
}

// Parse returns the list of a doc comment, given as text without comment marks.
func Parse(text string) (l List, found bool) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != Head && !strings.HasSuffix(line, " "+Head) {
			continue
		}
		for _, line := range lines[i+1:] {
			switch bullet, begins := strings.CutPrefix(line, "  - "); {
			case begins:
				l.Bullets = append(l.Bullets, bullet)
			case strings.HasPrefix(line, "    ") && len(l.Bullets) > 0:
				l.Bullets[len(l.Bullets)-1] += " " + strings.TrimSpace(line)
			default:
				return l, len(l.Bullets) > 0
			}
		}
		return l, len(l.Bullets) > 0
	}
	return l, false
}

// Head ends the line before the bullets.
const Head = "Errors are"

// name matches the name of an error, with the name of its package.
var name = regexp.MustCompile(`\b(?:[a-z]\w*\.)?(?:[A-Z]\w*\.)?(?:Err[A-Z]\w*|[A-Z]\w*Error)\b`)

// wraps matches what a bullet says of the errors that another one wraps.
var wraps = regexp.MustCompile(`\bwraps? ([^;:.]|\.\w)*`)

// Names returns the names of errors in a bullet, such as ErrTaken and zk.ErrNoAuth, and the names
// behind "wraps" in the same sentence.
func Names(bullet string) (names, wrapped []string) {
	for _, part := range wraps.FindAllString(bullet, -1) {
		wrapped = append(wrapped, name.FindAllString(part, -1)...)
	}
	return name.FindAllString(wraps.ReplaceAllString(bullet, ""), -1), wrapped
}

// kinds are the errors that a bullet describes without a name.
var kinds = []struct {
	words *regexp.Regexp
	is    func(err error, own []error) bool
}{
	{regexp.MustCompile(`\berror of ctx\b`), isContext},
	{regexp.MustCompile(`\berrors? of (an? |the )?([abd-z]|c[a-su-z])`), isOwn}, // not of ctx
	{regexp.MustCompile(`\bcause of (a|the) loss\b`), isLoss},
	{regexp.MustCompile(`\bserver's errors?\b`), isRefusal},
}
