//go:build race

package sqlite_test

// racing says that the race detector is on.
const racing = true
