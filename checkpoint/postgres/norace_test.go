//go:build !race

package postgres_test

// racing says that the race detector is on.
const racing = false
