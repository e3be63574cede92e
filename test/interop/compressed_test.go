package interop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/compressed"
	"github.com/gocurator/curator/internal/test/testbed"
)

func javaCompressed(t *testing.T, s stage) {
	c, ctx := s.begin(t)
	nodes := map[string]string{"empty": "", "text": "text ö", "long": strings.Repeat("long ö", 100_000)}
	for name, text := range nodes {
		testbed.Must(compressed.Create(ctx, c.client, c.path+"/"+name, []byte(text), framework.PersistentParents()))
	}
	c.create(t, ctx, c.path+"/plain")
	p := s.java(t, "compressed", c.path)
	require.Equal(t, "plain", p.hears(t, ctx, "refused"))
	p.hears(t, ctx, "done")
	for name, text := range nodes {
		data, _, err := compressed.Get(ctx, c.client, c.path+"/"+name+"-java")
		require.NoError(t, err)
		require.Equal(t, text, string(data))
	}
}
