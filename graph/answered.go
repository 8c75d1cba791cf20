package graph

import "context"

// Answered returns the answer that was given to the question with a key which the node
// asks in this task ([Interrupt]), and whether there is one. It asks nothing. An answer
// is the task's: when the node has succeeded it is used up, and a later visit of the node
// asks anew.
func Answered[T any](ctx context.Context, key string) (answer T, ok bool, err error) {
	t, err := task(ctx, "Answered")
	if err != nil {
		return answer, false, err
	}
	data, ok := t.Answer(ctx, key)
	if !ok {
		return answer, false, nil
	}
	if answer, err = decode[T](data); err != nil {
		return answer, true, &AnswerError{Key: key, Reason: string(data) + " is of another type than is read", Err: err}
	}
	return answer, true, nil
}
