// Package ctxerr says why a context ended.
package ctxerr

import (
	"context"
	"errors"
	"fmt"
)

// Of returns an error in which errors.Is finds context.Canceled or
// context.DeadlineExceeded as well as the cause that whoever ended ctx gave. ctx must
// be done.
func Of(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
