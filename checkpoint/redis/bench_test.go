package redis_test

import (
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/checkpointtest"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// BenchmarkAppend appends to one thread; compare it with BenchmarkBareSet.
func BenchmarkAppend(b *testing.B) {
	s := openAt(b, newPrefix(b))
	defer s.Close()
	log, run := checkpoint.Log{Thread: "t"}, checkpoint.NewRunID()
	var parent checkpoint.ID
	var seq int64
	b.ReportAllocs()
	for b.Loop() {
		seq++
		r := logtest.Step(log, run, parent, seq, logtest.Message)
		w := &checkpoint.Write{Log: log, Record: r, Head: parent}
		if parent != "" {
			w.Drop = &checkpoint.Drop{Epoch: parent}
			w.Results = []checkpoint.Result{{Epoch: parent, Kind: checkpoint.KindChanges, Data: logtest.Message}, {Epoch: parent, Kind: checkpoint.KindRouting, Data: []byte(`{"static":true}`)}}
		}
		if _, err := s.Write(b.Context(), w); err != nil {
			b.Fatal(err)
		}
		parent = r.ID
	}
}

// BenchmarkBareSet is the loop to compare with: one key a request, the same
// client, server and bytes.
func BenchmarkBareSet(b *testing.B) {
	c, prefix := client(b, servertest.Redis(b)), newPrefix(b)
	meta, data, err := checkpoint.MarshalBody(logtest.Step(checkpoint.Log{Thread: "t"}, checkpoint.NewRunID(), "", 1, logtest.Message))
	if err != nil {
		b.Fatal(err)
	}
	body := append(meta, data...)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Set(b.Context(), prefix+"x", body, 0).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStore(b *testing.B) {
	checkpointtest.Benchmark(b, func(b *testing.B) checkpoint.Store { return openAt(b, newPrefix(b)) })
}
