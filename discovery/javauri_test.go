package discovery_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
)

// javahost.txt has what getHost of java.net.URI.create("http://"+host+":80/") of Java 17 answered.
func TestJavaHost_AsJava(t *testing.T) {
	data, err := os.ReadFile("testdata/javahost.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		host, answer, _ := strings.Cut(strings.TrimSpace(line), "\t")
		assert.Equal(t, answer != "null", discovery.JavaHost(host), host)
	}
}

// javauri.txt has what java.net.URI.create of Java 17 answered.
func TestJavaURI_AsJava(t *testing.T) {
	data, err := os.ReadFile("testdata/javauri.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		answer, quoted, _ := strings.Cut(line, "\t")
		var uri string
		require.NoError(t, json.Unmarshal([]byte(quoted), &uri))
		err := discovery.JavaURI(uri)
		assert.Equal(t, answer == "ok", err == nil, "%q: %v", uri, err)
	}
}
