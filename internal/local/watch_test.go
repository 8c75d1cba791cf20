package local

import (
	"testing"
	"testing/synctest"
	"time"
)

type counted int

func (n *counted) overdue() { *n++ }

func TestAWatchTellsOfEachThatTakesLongerAndOfNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told counted
		w := watch{limit: time.Second, of: &told}
		defer w.stop()
		for _, tt := range []struct {
			takes, pause time.Duration
			late         bool
		}{
			{0, 0, false}, {900 * time.Millisecond, 0, false}, {900 * time.Millisecond, 0, false},
			{1100 * time.Millisecond, 0, true}, {5 * time.Second, time.Minute, true},
			{100 * time.Millisecond, time.Minute, false}, {1100 * time.Millisecond, 0, true},
		} {
			before := told
			w.begin(time.Now())
			time.Sleep(tt.takes)
			synctest.Wait()
			late := w.end()
			if late != tt.late || (told > before) != tt.late || told > before+1 {
				t.Errorf("%v: late %v, told %d times", tt.takes, late, told-before)
			}
			time.Sleep(tt.pause)
		}
	})
}

func TestAWatchThatIsNotGivenTheTimeTellsNoEarlierAndUpToTwiceAsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told counted
		w := watch{limit: time.Second, of: &told}
		defer w.stop()
		w.begin(time.Time{})
		w.end()
		time.Sleep(500 * time.Millisecond) // the timer goes on
		for _, tt := range []struct {
			takes time.Duration
			late  bool
		}{{999 * time.Millisecond, false}, {2001 * time.Millisecond, true}, {999 * time.Millisecond, false}, {time.Minute, true}} {
			w.begin(time.Time{})
			time.Sleep(tt.takes)
			synctest.Wait()
			if late := w.end(); late != tt.late {
				t.Errorf("%v: late %v", tt.takes, late)
			}
		}
	})
}
