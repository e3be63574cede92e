package connectstring_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/connectstring"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		servers []string
		chroot  string
	}{
		"zk1":                       {[]string{"zk1"}, ""},
		"zk1:2181,zk2:2181":         {[]string{"zk1:2181", "zk2:2181"}, ""},
		"zk1:2181, zk2:2181/app/eu": {[]string{"zk1:2181", "zk2:2181"}, "/app/eu"},
		"[::1]:2181/":               {[]string{"[::1]:2181"}, ""},
	} {
		servers, chroot, err := connectstring.Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want.servers, servers, text)
		assert.Equal(t, want.chroot, chroot, text)
	}
}

func TestBadStringsAreRefused(t *testing.T) {
	for _, text := range []string{"", "zk1,", ",zk1", "/app"} {
		_, _, err := connectstring.Parse(text)
		assert.ErrorContains(t, err, "a server is empty", text)
	}
	_, _, err := connectstring.Parse("zk1:2181/app/")
	assert.ErrorIs(t, err, framework.ErrBadPath)
}
