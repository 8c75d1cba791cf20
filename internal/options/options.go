// Package options reads the options of functions that take them as their last arguments,
// in a struct whose zero value is fine: most callers give none.
package options

import "fmt"

// Only returns the one Options that was given to a function of a package, or
// zero ones.
func Only[O any](pkg string, opts []O) (o O, err error) {
	switch len(opts) {
	case 0:
	case 1:
		o = opts[0]
	default:
		err = fmt.Errorf("%s: more than one Options", pkg)
	}
	return o, err
}
