package bustest

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/fleet/bus"
)

// Bench measures a bus, of which open returns that of a process each time: how long it takes
// to publish a batch of 1 kB, what a model says in 50 ms, whether or not anybody follows the
// thread; and how late one is read elsewhere, while a hundred threads have one every 50 ms.
func Bench(b *testing.B, open func(b *testing.B) bus.Bus) {
	batch := make([]byte, 1000)
	b.Run("nobody follows", func(b *testing.B) {
		from := open(b)
		for b.Loop() {
			if err := from.Publish(b.Context(), b.Name(), batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("somebody follows", func(b *testing.B) {
		from, to := open(b), open(b)
		s, err := to.Subscribe(b.Context(), b.Name())
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		for b.Loop() {
			if err := from.Publish(b.Context(), b.Name(), batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hundred threads", func(b *testing.B) {
		from, to := open(b), open(b)
		const threads = 100
		late := make(chan []time.Duration, threads)
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		for i := range threads {
			thread := b.Name() + string(rune('0'+i))
			s, err := to.Subscribe(ctx, thread)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			go func() {
				var all []time.Duration
				defer func() { late <- all }()
				for {
					select {
					case <-s.News():
					case <-ctx.Done():
						return
					}
					got, _ := s.Read(ctx)
					for _, batch := range got {
						all = append(all, time.Since(time.UnixMicro(int64(binary.BigEndian.Uint64(batch)))))
					}
				}
			}()
			go func() {
				tick := time.NewTicker(50 * time.Millisecond)
				defer tick.Stop()
				batch := make([]byte, 1000)
				for {
					select {
					case <-tick.C:
					case <-ctx.Done():
						return
					}
					binary.BigEndian.PutUint64(batch, uint64(time.Now().UnixMicro()))
					_ = from.Publish(ctx, thread, batch)
				}
			}()
		}
		for b.Loop() {
			time.Sleep(time.Second)
		}
		cancel()
		var all []time.Duration
		for range threads {
			all = append(all, <-late...)
		}
		if len(all) == 0 {
			b.Fatal("nothing came")
		}
		slices.Sort(all)
		b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "batches/s")
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "median-ms")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	})
}
