//go:build race

package redis_test

// racing says that the race detector is on.
const racing = true
