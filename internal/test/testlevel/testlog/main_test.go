package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	const events = `{"Action":"start","Package":"a"}
{"Action":"output","Package":"a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"a","Test":"TestGood"}
{"Action":"output","Package":"a","Test":"TestLeft","Output":"    a_test.go:1: LEFT OUT: ` + "`make nightly`" + ` runs it\n"}
{"Action":"skip","Package":"a","Test":"TestLeft"}
{"Action":"output","Package":"a","Test":"TestSilent","Output":"--- SKIP: TestSilent\n"}
{"Action":"skip","Package":"a","Test":"TestSilent"}
{"Action":"output","Package":"a","Output":"PASS\n"}
{"Action":"output","Package":"a","Output":"ok  \ta\t0.1s\n"}
{"Action":"pass","Package":"a"}
{"Action":"output","Package":"b","Test":"TestBad","Output":"    b_test.go:1: wrong\n"}
{"Action":"output","Package":"b","Test":"TestBad","Output":"--- FAIL: TestBad\n"}
{"Action":"fail","Package":"b","Test":"TestBad"}
{"Action":"output","Package":"b","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"b","Output":"FAIL\tb\t0.1s\n"}
{"Action":"fail","Package":"b"}
{"Action":"output","Package":"c","Output":"?   \tc\t[no test files]\n"}
{"Action":"skip","Package":"c"}
{"ImportPath":"d","Action":"build-output","Output":"d.go:1: syntax error\n"}
go: something of its own
`
	var out, verbose strings.Builder
	require.NoError(t, report(strings.NewReader(events), &out, &verbose))
	assert.Contains(t, verbose.String(), "=== RUN   TestGood\n")
	assert.Equal(t, `ok  	a	0.1s
FAIL	b	0.1s
    b_test.go:1: wrong
--- FAIL: TestBad
panic: test timed out
d.go:1: syntax error
go: something of its own
LEFT OUT without a reason
	a: TestSilent
LEFT OUT: `+"`make nightly`"+` runs it
	a: TestLeft
`, out.String())
}
