// Package race says whether the race detector is on, under which large tests
// take many times longer.
package race
