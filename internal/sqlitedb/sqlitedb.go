// Package sqlitedb holds what the packages that keep data in SQLite do alike: they
// tell its errors apart.
package sqlitedb

import (
	"errors"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Code returns SQLite's primary result code, 0 if err is not SQLite's. A file that
// ends within a page is a damaged one to us, and an I/O error to SQLite.
func Code(err error) int {
	e, ok := errors.AsType[*sqlite.Error](err)
	switch {
	case !ok:
		return 0
	case e.Code() == lib.SQLITE_IOERR_SHORT_READ:
		return lib.SQLITE_CORRUPT
	}
	return e.Code() & 0xff
}

// Busy reports whether somebody else holds the database.
func Busy(err error) bool { c := Code(err); return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED }
