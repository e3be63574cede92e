package dialerrors_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/dialerrors"
)

func TestReasonsAreKeptAndNotPrinted(t *testing.T) {
	var out bytes.Buffer
	why := dialerrors.New(slog.NewTextHandler(&out, nil))
	assert.Equal(t, "none has refused, none has answered", why.String())
	client, err := framework.New([]string{"127.0.0.1:1", "localhost:1"}, framework.WithLogger(slog.New(why).With("app", "test")))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Error(t, client.WaitConnected(ctx))
	client.Close()
	assert.Contains(t, why.String(), "connection refused")
	assert.Empty(t, out.String(), "they are of debug level")
}
