package servertest

import "context"

// Quiet is a logger for the Redis client that says nothing, for tests whose
// servers go away on purpose.
type Quiet struct{}

func (Quiet) Printf(context.Context, string, ...any) {}
