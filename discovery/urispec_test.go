package discovery_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
)

// What Java's UriSpec built of the same.
func TestURIIsBuiltAsInJava(t *testing.T) {
	plain := discovery.Instance[any]{
		Name: "n", ID: "i", Address: "ad", Port: 1, RegistrationTime: time.UnixMilli(7), Type: discovery.DynamicSequential,
	}
	secure := discovery.Instance[any]{Name: "n", ID: "j", Address: "172.17.0.1", SSLPort: 2, RegistrationTime: time.UnixMilli(7)}
	for _, c := range []struct {
		pattern   string
		instance  discovery.Instance[any]
		variables map[string]string
		want      string
	}{
		{"{scheme}://{address}:{port}", plain, map[string]string{"bar": "B"}, "http://ad:1"},
		{"{scheme}://{address}:{port}", secure, map[string]string{"name": "N"}, "https://172.17.0.1:"},
		{"{scheme}://{address}:{port}", discovery.Instance[any]{}, nil, "http://:"},
		{"{ scheme }x{name}{id}{ssl-port}{registration-time-utc}{service-type}{[}{]}{foo}|{bar}", plain, map[string]string{"bar": "B"}, "httpxni7dynamic_sequential{}|B"},
		{"{scheme}x{name}{id}{ssl-port}{registration-time-utc}{service-type}{[}{]}{foo}|{bar}", secure, map[string]string{"name": "N"}, "httpsxNj27dynamic{}|"},
		{"{}", plain, nil, ""},
		{"", plain, nil, ""},
		{"text", plain, nil, "text"},
	} {
		spec, err := discovery.ParseURISpec(c.pattern)
		require.NoError(t, err)
		c.instance.URISpec = spec
		assert.Equal(t, c.want, c.instance.URI(c.variables), c.pattern)
	}
	assert.Empty(t, plain.URI(nil), "without a pattern")
	for _, bad := range []string{"a{b{c}}", "a}", "a{b", "{a}}", "{"} {
		_, err := discovery.ParseURISpec(bad)
		require.ErrorIs(t, err, framework.ErrBadArgument, bad)
	}
}
