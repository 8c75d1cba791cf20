package fleet_test

import (
	"testing"

	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/fleet/fleettest"
)

func TestLocalPassesTheSuite(t *testing.T) {
	fleettest.Run(t, fleettest.Suite{New: func(t *testing.T, w *fleet.Worker) fleet.Dispatcher {
		d, err := fleet.NewLocal(w, fleet.LocalOptions{Workers: 3, Batch: 7})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}})
}
