package temporal

import (
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/internal/dispatchtest"
)

func TestAServersRunsGoByTemporal(t *testing.T) {
	t.Parallel()
	s := onServer(t)
	dispatchtest.Run(t, dispatchtest.Suite{Elsewhere: true, Begin: func(t *testing.T) func(*fleet.Worker) (fleet.Dispatcher, error) {
		queue := fmt.Sprintf("%s %d", t.Name(), time.Now().UnixNano())
		return Begin(s.c, Options{TaskQueue: queue, Prefix: queue + "/", Heartbeat: 3 * time.Second}, worker.Options{MaxHeartbeatThrottleInterval: 500 * time.Millisecond})
	}})
}
