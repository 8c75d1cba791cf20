package serve

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/mocks"

	"github.com/superstep-dev/superstep/fleet"
)

// working is a dispatcher that notes when it is closed.
type working struct {
	fleet.Dispatcher
	closed *[]string
}

func (w working) Close() error {
	*w.closed = append(*w.closed, "worker")
	return nil
}

func TestTheConnectionIsClosedAfterTheWorker(t *testing.T) {
	var closed []string
	c := mocks.NewClient(t)
	c.On("Close").Run(func(mock.Arguments) { closed = append(closed, "connection") })
	if err := (&connected{working{nil, &closed}, c}).Close(); err != nil || !slices.Equal(closed, []string{"worker", "connection"}) {
		t.Errorf("closed %q, %v", closed, err)
	}
}
