package lint_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/errlist"
)

// firstDay are the names of functions that users call on the first day. Their comments list the
// errors.
var firstDay = strings.Fields(`Acquire AcquireN TryAcquire TryAcquireN Release ReleaseWith Downgrade FencingToken
	Participants Max Do Campaign Lead Leader Run Revoke RevokeAll Wait Enter Leave Keep
	Register Update Drain Get Set Create Delete Multi Close Shutdown`)

// TestErrors_AreListed requires that the comment of a function of the first day lists its errors, or
// has a sentence instead: "The only error is ...", "The error is always nil" or "... returns nil.".
// An exported comment neither joins errors by commas nor names the errors of another function.
func TestErrors_AreListed(t *testing.T) {
	t.Chdir("../..")
	found, checked := map[string][]string{}, 0
	require.NoError(t, filepath.WalkDir(".", func(dir string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return err
		case errlist.Private(entry.Name()):
			return fs.SkipDir
		}
		for name, c := range exportedComments(t, dir) {
			for _, complaint := range errorSentences(c.text) {
				found[dir] = append(found[dir], fmt.Sprintf("%s: %s: %s", c.at, name, complaint))
			}
		}
		for name, c := range returnErrors(t, dir) {
			checked++
			if complaint := errorList(c.text); complaint != "" {
				found[dir] = append(found[dir], fmt.Sprintf("%s: %s: %s", c.at, name, complaint))
			}
		}
		return nil
	}))
	require.Greater(t, checked, 80)
	for dir, complaints := range found {
		slices.Sort(complaints)
		assert.Fail(t, dir, strings.Join(complaints, "\n"))
	}
}

// returnErrors returns the comments of the exported functions and methods of the first day that
// return an error.
func returnErrors(t *testing.T, dir string) map[string]comment {
	t.Helper()
	all, set := map[string]comment{}, token.NewFileSet()
	for _, file := range parse(t, set, dir) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !slices.Contains(firstDay, f.Name.Name) || f.Type.Results == nil {
				continue
			}
			results := f.Type.Results.List
			if last, ok := results[len(results)-1].Type.(*ast.Ident); !ok || last.Name != "error" {
				continue
			}
			if name, ok := exportedName(f); ok {
				all[name] = comment{text: f.Doc.Text(), at: set.Position(f.Pos())}
			}
		}
	}
	return all
}

var (
	single = regexp.MustCompile(`(^|[.:] )(The only error is |The error is always nil)|\breturns nil\.`)

	// condition is what a bullet says besides the name.
	condition = regexp.MustCompile(`\b(if|when|while|after|inside|unless|once|during|before|of f|of ctx|such as)\b|:`)

	// delegated matches the errors of another function of this module.
	delegated = regexp.MustCompile(`\berrors? of (calling )?\[?((framework|lock|cache|node|mutex|leader)\.)?[A-Z]|\b[Ee]rrors are (as for|the same)|[Oo]ther errors are as`)

	// sentence matches errors outside of a list. All errors of a package may have one type.
	sentence  = regexp.MustCompile(`\b[Ee]rrors are,? (the error|an error|those|\[?([a-z]\w*\.)?Err)[^\n]+`)
	commaList = regexp.MustCompile(`(\[?\*?([a-z]\w*\.)?Err[A-Z]\w*\]?,? (and|or)?\s*){3}`)
)

// errorList returns a complaint about the list of errors in a comment, or "".
func errorList(text string) string {
	if single.MatchString(strings.Join(strings.Fields(text), " ")) {
		return ""
	}
	l, found := errlist.Parse(text)
	if !found {
		return "no list of errors"
	}
	for _, bullet := range l.Bullets {
		names, _ := errlist.Names(bullet)
		switch {
		case !condition.MatchString(bullet):
			return fmt.Sprintf("no condition: %q", bullet)
		case len(names) > 3:
			return fmt.Sprintf("more than three names: %q", bullet)
		}
	}
	return ""
}

// errorSentences returns complaints about a comment's sentences about errors.
func errorSentences(text string) (complaints []string) {
	for _, paragraph := range strings.Split(text, "\n\n") {
		for _, item := range strings.Split(paragraph, "\n  - ") {
			if strings.HasPrefix(item, "\t") {
				continue // code
			}
			line := strings.Join(strings.Fields(item), " ")
			if m := sentence.FindString(line); m != "" {
				complaints = append(complaints, fmt.Sprintf("not a list: %q", m))
			}
			if m := delegated.FindString(line); m != "" {
				complaints = append(complaints, fmt.Sprintf("the errors of another function: %q", line))
			}
			if m := commaList.FindString(line); m != "" {
				complaints = append(complaints, fmt.Sprintf("a list with commas: %q", m))
			}
		}
	}
	return complaints
}

// TestErrors_Complaints tries the expressions on comments with and without a fault.
func TestErrors_Complaints(t *testing.T) {
	for _, bad := range []string{
		"Errors are [ErrA] and [ErrB].", "Errors are as for [New].", "Errors are\n  - the errors of Acquire;",
		"Errors are\n  - [ErrA], [lock.ErrB] and zk.ErrC, if it fails.", "It returns the errors of [framework.Client.Multi].",
	} {
		assert.NotEmpty(t, errorSentences(bad), bad)
	}
	const good = "Errors are\n  - [ErrA] if it fails;\n  - the error of f."
	assert.Empty(t, errorSentences(good))
	assert.Empty(t, errorList(good))
	assert.Empty(t, errorList("The only error is ErrA."))
	assert.NotEmpty(t, errorList("Errors are\n  - [ErrA] and [ErrB]."))
	assert.NotEmpty(t, errorList("It fails if it fails."))
}
