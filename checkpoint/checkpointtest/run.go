// Package checkpointtest is the test suite that every [checkpoint.Store] passes.
//
// A back end calls [Run] from a test of its own:
//
//	func TestStore(t *testing.T) {
//		checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
//			s, err := mystore.Open(t.TempDir())
//			if err != nil {
//				t.Fatal(err)
//			}
//			return s
//		}, checkpointtest.Options{})
//	}
//
// Optional abilities ([checkpoint.Lister], [checkpoint.Copier],
// [checkpoint.Scheduler], [checkpoint.Rewriter]) are tested when the store has
// them. No test depends on how fast anything is.
package checkpointtest

import (
	"errors"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Options says what else the suite may do with a store. All are optional.
type Options struct {
	// Reopen closes s and opens what it stored again. Nil means that nothing
	// outlives the store.
	Reopen func(t *testing.T, s checkpoint.Store) checkpoint.Store

	// Crash leaves s as a killed process would, without closing it, and opens
	// what it stored again. s is not used afterwards, but closed at the end.
	Crash func(t *testing.T, s checkpoint.Store) checkpoint.Store

	// Another opens a second store on the same data as s, as another process
	// would.
	Another func(t *testing.T, s checkpoint.Store) checkpoint.Store

	// Size returns what s takes on disk, in bytes.
	Size func(t *testing.T, s checkpoint.Store) int64

	// BigRecord is the size of the largest record that is tried; 0 means 5 MB.
	BigRecord int
}

// Opener returns a new, empty store. The suite closes it.
type Opener = func(t *testing.T) checkpoint.Store

// Run runs the whole suite. Each test gets a store of its own from open.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store, opts ...Options) {
	t.Helper()
	var o Options
	switch len(opts) {
	case 0:
	case 1:
		o = opts[0]
	default:
		t.Fatal("checkpointtest.Run takes at most one Options")
	}
	if o.BigRecord == 0 {
		o.BigRecord = 5 << 20
	}
	fresh := func(t *testing.T) checkpoint.Store {
		t.Helper()
		s := open(t)
		closeLater(t, s)
		return s
	}
	for _, topic := range []struct {
		name string
		run  func(t *testing.T, open Opener, o Options)
	}{
		{"Append", testAppend},
		{"Conflicts", testConflicts},
		{"Fences", testFences},
		{"Reading", testReading},
		{"Results", testResults},
		{"Queries", testQueries},
		{"Branches", testBranches},
		{"Isolation", testIsolation},
		{"Names", testNames},
		{"RoundTrip", testRoundTrip},
		{"Immutability", testImmutability},
		{"Concurrency", testConcurrency},
		{"Contexts", testContexts},
		{"Lifecycle", testLifecycle},
		{"Listing", testListing},
		{"Copying", testCopying},
		{"Leases", testLeases},
		{"Scheduling", testScheduling},
		{"Removing", testRemoving},
		{"Logs", testLogs},
		{"Rewriting", testRewriting},
		{"Persistence", testPersistence},
		{"Crashes", testCrashes},
		{"Growth", testGrowth},
	} {
		t.Run(topic.name, func(t *testing.T) { topic.run(t, fresh, o) })
	}
}

// closeLater closes s at the end of the test, unless the test did.
func closeLater(t *testing.T, s checkpoint.Store) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, checkpoint.ErrClosed) {
			t.Errorf("closing the store: %v", err)
		}
	})
}
