// Package lazyregexp has regular expressions that are compiled when they are first used:
// a program that starts many times should not pay for those that it doesn't need.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. It panics if there is no
// such expression, as [regexp.MustCompile] does.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
