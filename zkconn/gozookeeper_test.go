package zkconn_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
)

// Tests of go-zookeeper about Conn and Lock, and their helpers. Left out are tests of Reconfig and
// WithMaxBufferSize, tests that replace private parts of a Conn, and tests that need a proxy or a
// TCP port that accepts without a quorum.
var (
	inVirtualTime = []string{
		"TestIntegration_StateChanges", "TestIntegration_OpsAfterCloseDontDeadlock", "TestIntegration_Multi",
		"TestIntegration_IfAuthdataSurvivesReconnect", "TestIntegration_MultiFailures", "TestIntegration_GetSetACL", "TestIntegration_Auth",
		"TestIntegration_Children", "TestIntegration_ChildWatch", "TestIntegration_ExpiringWatch", "TestIntegration_BasicCluster",
		"TestIntegration_ClientClusterFailover", "TestIntegration_WaitForClose", "TestIntegration_BadSession", "TestIntegration_Lock",
		"TestIntegration_MultiLevelLock",
	}
	inRealTime = []string{ // they have subtests, or use a real port
		"TestIntegration_Create", "TestIntegration_CreateTTL", "TestIntegration_CreateContainer", "TestRequestFail", "TestIdempotentClose", "TestConcurrentReadAndClose",
	}
	helpers = []string{
		"logWriter", "Write", "EventLogger", "NewStateLogger", "NewWatcher", "EventWatcher", "Wait", "sessionStateMatcher",
		"WithListenServer", "handleRequest",
	}
)

// replaced maps private parts of go-zookeeper's Conn to their counterparts here.
var replaced = strings.NewReplacer(
	"zk.conn.Close()", "ts.cut()",
	"zk.sessionID = 99999", "ts.end(zk)",
	"zk, _, err := ts.Connect(0)", "zk, events, err := ts.Connect(0)",
	"zk.eventChan", "events",
)

// The tests are not copied into this repository, but read from the module and run with this
// package's harness.
func TestGoZookeepersOwnTests(t *testing.T) {
	from := goZookeeper()
	tests := slices.Concat(inVirtualTime, inRealTime)
	var code strings.Builder
	for _, name := range []string{"zk_test.go", "cluster_test.go", "lock_test.go", "conn_test.go", "tcp_server_test.go"} {
		for _, d := range extracted(filepath.Join(from, name), slices.Concat(tests, helpers)) {
			code.WriteString(replaced.Replace(d) + "\n\n")
		}
	}
	text := code.String()
	for _, test := range inVirtualTime {
		private := "virtual" + test
		require.Contains(t, text, "func "+test+"(")
		text = strings.Replace(text, "func "+test+"(", "func "+private+"(", 1)
		text += fmt.Sprintf("func %s(t *testing.T) { synctest.Test(t, %s) }\n", test, private)
	}
	header := "package theirs\n\nimport (\n\t. \"github.com/gocurator/curator/zkconn\"\n"
	for _, path := range []string{
		"encoding/hex", "errors", "fmt", "math/rand", "net", "path/filepath", "reflect", "sort", "strings", "sync", "testing", "testing/synctest", "time",
	} {
		if regexp.MustCompile(`\b` + filepath.Base(path) + `\.[A-Z]`).MatchString(text) {
			header += fmt.Sprintf("\t%q\n", path)
		}
	}

	dir := t.TempDir()
	generated := filepath.Join(dir, "theirs_test.go")
	require.NoError(t, os.WriteFile(generated, []byte(header+")\n\n"+text), 0o600))
	here := testbed.Must(os.Getwd())
	overlay := testbed.Must(json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "testdata", "theirs", "theirs_test.go"): generated,
	}}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	out, err := exec.Command("go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "-vet=off", "-count=1", "-v", "./testdata/theirs").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, test := range tests {
		require.Contains(t, string(out), "--- PASS: "+test+" ")
	}
}

// extracted are the declarations of a file with these names.
func extracted(file string, names []string) (list []string) {
	text := testbed.Must(os.ReadFile(file))
	set := token.NewFileSet()
	parsed := testbed.Must(parser.ParseFile(set, file, text, parser.SkipObjectResolution))
	for _, d := range parsed.Decls {
		name := ""
		switch d := d.(type) {
		case *ast.FuncDecl:
			name = d.Name.Name
		case *ast.GenDecl:
			if spec, ok := d.Specs[0].(*ast.TypeSpec); ok {
				name = spec.Name.Name
			}
		}
		if slices.Contains(names, name) {
			list = append(list, string(text[set.Position(d.Pos()).Offset:set.Position(d.End()).Offset]))
		}
	}
	return list
}
