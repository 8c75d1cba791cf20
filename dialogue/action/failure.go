package action

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/tool"
)

// DefinitionError says what is wrong with how an action or a validator is defined.
type DefinitionError struct {
	Name string // its name, which may be what is wrong
	Err  error
}

func (e *DefinitionError) Error() string { return fmt.Sprintf("action %q: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *DefinitionError) Unwrap() error { return e.Err }

func failure(kind, format string, args ...any) *dialogue.Failure {
	return &dialogue.Failure{Type: kind, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error { return failure("invalid", format, args...) }

func invalidOutput(format string, args ...any) error {
	return failure("invalid_output", format, args...)
}

// because is a failure whose cause is for the log.
func because(kind string, err error) error {
	return fmt.Errorf("%w: %w", &dialogue.Failure{Type: kind}, err)
}

// wrongField finds the fields that are named in a tool's error about its arguments.
var wrongField = regexp.MustCompile(`(?:^|; )([\w.\[\]]+): `)

// ofTool says in types of failures what a tool's error is.
func ofTool(err error) error {
	var e *tool.Error
	switch {
	case !errors.As(err, &e):
		if errors.Is(err, context.Canceled) || timedOut(err) {
			return err
		}
		return because("unavailable", err)
	case e.Kind == tool.ErrorArguments: // its words have values, which may be secrets
		var names []string
		for _, m := range wrongField.FindAllStringSubmatch(e.Err.Error(), -1) {
			names = append(names, m[1])
		}
		if len(names) == 0 {
			return invalid("the inputs are not what the code takes")
		}
		return invalid("the inputs are not what the code takes: %s", strings.Join(names, ", "))
	case e.Kind == tool.ErrorUnknown:
		return because("action_not_found", err)
	}
	return err
}

// timedOut says whether an error is that something took too long.
func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
