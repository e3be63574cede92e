package dialerrors_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/dialerrors"
	"github.com/gocurator/curator/internal/test/testbed"
)

func TestReasonsAreKeptAndNotPrinted(t *testing.T) {
	var out bytes.Buffer
	why := dialerrors.New(slog.NewTextHandler(&out, nil))
	assert.Equal(t, "no server has refused or answered", why.String())
	client, err := framework.New([]string{"127.0.0.1:1", "localhost:1"}, framework.WithLogger(slog.New(why).With("app", "test")))
	require.NoError(t, err)
	testbed.Eventually(t, func() bool { return strings.Contains(why.String(), "connection refused") }, "the attempt fails")
	client.Close()
	assert.Empty(t, out.String(), "they are of debug level")
}
