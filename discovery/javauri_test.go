package discovery_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
)

// javahost.txt has what getHost of java.net.URI.create("http://"+host+":80/") of Java 17 answered.
func TestJavaHost_AsJava(t *testing.T) {
	for host, answer := range testdata(t, "javahost.txt", "\t") {
		assert.Equal(t, answer != "null", discovery.JavaHost(host), host)
	}
}

// javauri.txt has what java.net.URI.create of Java 17 answered.
func TestJavaURI_AsJava(t *testing.T) {
	for answer, quoted := range testdata(t, "javauri.txt", "\t") {
		var uri string
		require.NoError(t, json.Unmarshal([]byte(quoted), &uri))
		err := discovery.JavaURI(uri)
		assert.Equal(t, answer == "ok", err == nil, "%q: %v", uri, err)
	}
}
