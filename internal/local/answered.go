package local

import (
	"context"
	"encoding/json"
)

// Answer returns the answer that the task has been given to a question with a key, and
// whether there is one. It asks nothing.
func (t *Task) Answer(ctx context.Context, key string) (json.RawMessage, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	scope := scopeOf(ctx)
	for _, q := range t.talking().Questions {
		if len(q.Path) == 0 && q.Scope == scope && q.Key == key && q.Answered && !q.Wait {
			return q.Answer, true
		}
	}
	return nil, false
}
