//go:build !linux

package file

import (
	"errors"
	"os"
)

func mountTiny(string) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }

func dropRights() (back func(), err error) {
	if os.Geteuid() <= 0 {
		return nil, errors.ErrUnsupported
	}
	return func() {}, nil
}
