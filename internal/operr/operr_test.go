package operr_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/internal/operr"
)

func TestJoin(t *testing.T) {
	first, second := errors.New("first"), io.EOF
	joined := operr.Join(nil, first, nil, second)
	assert.EqualError(t, joined, "first; EOF")
	assert.ErrorIs(t, joined, first)
	assert.ErrorIs(t, joined, second)
	assert.Equal(t, second, operr.Join(nil, second))
	assert.NoError(t, operr.Join(nil, nil))
	assert.NoError(t, operr.Join())
}
