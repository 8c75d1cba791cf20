package checkpoint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

func TestABusyThreadNamesNoTimeThatNobodySaid(t *testing.T) {
	err := &checkpoint.BusyError{Thread: "t", Lease: checkpoint.Lease{Holder: "h"}}
	if got := err.Error(); strings.Contains(got, "until") || !strings.Contains(got, "run h holds") {
		t.Error(got)
	}
	err.Lease.Until = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if got := err.Error(); !strings.Contains(got, "until 2026-03-04T05:06:07Z") {
		t.Error(got)
	}
}
