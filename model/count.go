package model

import "context"

type countingKey struct{}

// Counting returns a context for which answers of models are counted: count is given each
// one that [Count] is told of there, and maybe by several goroutines at once. Of two such
// contexts the inner one has the answers. Package agent counts so for its nodes and tools,
// whose state then has the usage.
func Counting(ctx context.Context, count func(place string, r *Response)) context.Context {
	return context.WithValue(ctx, countingKey{}, count)
}

// Count says that a model was asked on behalf of what the context is of, such as a run, and
// reports whether anybody counts. Place says by what; it may be empty. [Generate] does it
// for each of its answers: so does who asks a [Model] directly, other than as a node of
// package agent. An answer that was recorded, as by graph.Once, is counted outside of what
// records it, and so also when it is read again.
func Count(ctx context.Context, place string, r *Response) bool {
	count, ok := ctx.Value(countingKey{}).(func(string, *Response))
	if ok && r != nil {
		count(place, r)
	}
	return ok
}
