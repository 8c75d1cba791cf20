package bus_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/fleet/bus"
	"github.com/superstep-dev/superstep/fleet/bus/bustest"
)

func TestMemory(t *testing.T) {
	m := bus.NewMemory()
	bustest.Run(t, func(*testing.T) bus.Bus { return m })
}

func TestOfWhatNobodyReadsTheOldestGoes(t *testing.T) {
	m := bus.NewMemory()
	s, err := m.Subscribe(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	large := strings.Repeat("x", 5<<20)
	for i := range 5 {
		if err := m.Publish(t.Context(), "t", fmt.Append(nil, i, large)); err != nil {
			t.Fatal(err)
		}
	}
	batches, err := s.Read(t.Context())
	if err != nil || len(batches) != 3 || batches[0][0] != '2' {
		t.Errorf("%d batches are left, %v", len(batches), err)
	}
}

func ExampleNewMemory() {
	ctx := context.Background()
	m := bus.NewMemory()
	s, err := m.Subscribe(ctx, "thread-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if err := m.Publish(ctx, "thread-1", []byte("a batch of events")); err != nil {
		fmt.Println(err)
		return
	}
	<-s.News()
	batches, err := s.Read(ctx)
	fmt.Printf("%s %v\n", batches, err)
	// Output: [a batch of events] <nil>
}
