package nlu

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/dialogue"
)

// Script understands the texts that it has, each as its commands: for tests. Any other text
// is a [*UnknownTextError].
type Script map[string][]dialogue.Command

// UnknownTextError says that a [Script] doesn't have a text.
type UnknownTextError struct{ Text string }

// Error names the text.
func (e *UnknownTextError) Error() string {
	return fmt.Sprintf("the script doesn't say what %q means", e.Text)
}

// Understand returns the commands of the message's text.
func (s Script) Understand(_ context.Context, in dialogue.Understand) ([]dialogue.Command, error) {
	cmds, ok := s[in.Message.Text]
	if !ok {
		return nil, &UnknownTextError{in.Message.Text}
	}
	return cmds, nil
}
