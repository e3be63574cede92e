package lint_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// terms are words for which the glossary of CONTRIBUTING.md has another one.
var terms = []struct {
	term    string         // of the glossary
	pattern *regexp.Regexp // what stands in its place
	why     string
	bad     []string          // examples of the pattern
	allowed map[string]string // reasons, by the folder in which and below which the words may occur
}{
	{
		term: "deleted",
		pattern: regexp.MustCompile(`(?i)\b(nodes?|child|children) (is|are|was|were|be|been) (removed|destroyed|dropped)\b|` +
			`\b(removes?|destroys?) (its|the|a|all|their|each) (nodes?|child|children)\b|\b(nodes?|child|children) (disappears?|vanish(es)?|dies?)\b`),
		why: "a node is deleted; a watch, a member or an option is removed",
		bad: []string{"its node is removed", "Close removes all nodes", "when the child disappears"},
	},
	{
		term:    "expired",
		pattern: regexp.MustCompile(`(?i)\bsessions? (dies?|died|vanish(es)?|times? out|timed out|is dead|was killed)\b`),
		why:     "a session expires, or its client closes it; both end it",
		bad:     []string{"until its session dies", "the session timed out"},
	},
	{
		term: "lease",
		pattern: regexp.MustCompile(`(?i)\bleases? (is|are|was|were|be) (granted|returned|given|freed)\b|` +
			`\b(grants?|takes|frees|returns) (a|the|its|one|no) leases?\b|\bgrants .{1,20} leases?\b`),
		why: "a lease is acquired, held and released",
		bad: []string{"no lease is granted", "the lease was returned", "a driver that grants several nodes one lease"},
	},
	{
		term: "acquire",
		pattern: regexp.MustCompile(`(?i)\b(gets?|takes?|obtains?|grabs?|wins?) (the|a|its) (lock|mutex|semaphore)\b|` +
			`\b(lock|mutex) (is )?(taken|granted|free)\b`),
		why: "a lock is acquired, held and released",
		bad: []string{"a waiter gets the lock", "finds the lock taken"},
	},
	{
		term:    "contender",
		pattern: regexp.MustCompile(`(?i)\bcandidates?\b`),
		why:     "only an election has candidates",
		bad:     []string{"the candidates of Pick"},
		allowed: map[string]string{
			"recipes/leader": "elections",
			"observe":        "their metrics",
		},
	},
	{
		term:    "node",
		pattern: regexp.MustCompile(`(?i)\bznodes?\b`),
		why:     "one word for one thing",
		bad:     []string{"on the same znodes"},
		allowed: map[string]string{
			"zktest": "keys of ZooKeeper's configuration, and a tree whose own nodes are not all of ZooKeeper's",
		},
	},
	{
		term:    "ensemble",
		pattern: regexp.MustCompile(`\bclusters?\b`),
		why:     "ZooKeeper's servers are an ensemble",
		bad:     []string{"Package admin provides cluster administration."},
		allowed: map[string]string{
			"cmd/zklock":        "machines that run a command",
			"internal/timeline": "records of a zktest.Cluster",
			"internal/test":     "zktest.Cluster",
			"zktest":            "zktest.Cluster",
		},
	},
	{
		term:    "given up",
		pattern: regexp.MustCompile(`\b(aborts?|aborted|abandon|abandons|abandoned)\b`),
		why:     "one word for one thing",
		bad:     []string{"if the connection was abandoned"},
	},
}

// TestExportedComments_Terms requires that exported comments use the words of the glossary, and
// that each exception is needed.
func TestExportedComments_Terms(t *testing.T) {
	type exception struct{ term, dir string }
	unused := map[exception]bool{}
	for _, rule := range terms {
		for dir := range rule.allowed {
			unused[exception{rule.term, dir}] = true
		}
	}
	eachExportedComment(t, func(dir, name string, comment comment) {
		text := strings.Join(strings.Fields(comment.text), " ")
		for _, rule := range terms {
			found := rule.pattern.FindString(text)
			if found == "" {
				continue
			}
			permitted := false
			for allowed := range rule.allowed {
				if dir == allowed || strings.HasPrefix(dir, allowed+"/") {
					permitted = true
					delete(unused, exception{rule.term, allowed})
				}
			}
			if !permitted {
				t.Errorf("%s: %s: %q: the glossary has %q: %s", comment.at, name, found, rule.term, rule.why)
			}
		}
	})
	assert.Empty(t, slices.Collect(maps.Keys(unused)), "exceptions that no comment needs")
}

// TestTerms_OfTheGlossary requires that each rule names a term of the glossary, and finds its
// examples.
func TestTerms_OfTheGlossary(t *testing.T) {
	_, glossary, found := strings.Cut(read(t, "../../CONTRIBUTING.md"), "\n## Glossary\n")
	require.True(t, found)
	glossary, _, _ = strings.Cut(glossary, "\n## ")
	assert.LessOrEqual(t, strings.Count(glossary, "\n"), 30, "lines of the glossary")
	for _, rule := range terms {
		assert.Regexp(t, `(?m)^\| (.*, )?`+regexp.QuoteMeta(rule.term)+`(, .*)? \|`, glossary)
		for _, bad := range rule.bad {
			assert.Regexp(t, rule.pattern, bad)
		}
	}
}
