//go:build race

package file

// racing says that the race detector is on, under which large tests take many
// times longer.
const racing = true
