// Package logtest has records and logs for the tests of stores.
package logtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/process"
)

// Message is what one record of a conversation holds.
var Message = []byte(`{"messages":[{"role":"assistant","content":"` + strings.Repeat("x", 440) + `"}]}`)

// Noise returns a text in JSON of n bytes, which can't be packed to much less.
func Noise(n int) []byte {
	b, r := make([]byte, n), rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEF"[r.IntN(32)]
	}
	b[0], b[n-1] = '"', '"'
	return b
}

// Step returns the next record of a conversation.
func Step(log checkpoint.Log, run, parent checkpoint.ID, seq int64, data []byte) *checkpoint.Record {
	id := run.Checkpoint(uint32(seq))
	return &checkpoint.Record{
		ID: id, Parent: parent, Log: log, Seq: seq, Epoch: id, Step: int(seq), Source: checkpoint.SourceLoop,
		CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, int(seq), time.UTC), Graph: "chat", Version: 1,
		Changes: []checkpoint.Change{{Node: "agent", Data: data}}, Tasks: []checkpoint.Task{{Node: "agent", From: "agent"}},
		Recent: []string{"agent"},
	}
}

// Begin begins a log with n records and returns the head.
func Begin(t testing.TB, s checkpoint.Store, log checkpoint.Log, n int) checkpoint.ID {
	t.Helper()
	run := checkpoint.NewRunID()
	var parent checkpoint.ID
	for seq := range int64(n) {
		r := Step(log, run, parent, seq+1, Message)
		Write(t, s, &checkpoint.Write{Log: log, Record: r, Head: parent})
		parent = r.ID
	}
	return parent
}

// Write writes to a store.
func Write(t testing.TB, s checkpoint.Store, w *checkpoint.Write) checkpoint.Written {
	t.Helper()
	out, err := s.Write(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Count returns how many records a log has.
func Count(t testing.TB, s checkpoint.Store, log checkpoint.Log) (n int) {
	t.Helper()
	for _, err := range s.Records(t.Context(), checkpoint.Query{Log: log, AllBranches: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// Ended returns the name of a process that has ended, as holders of leases have it. Where
// that can't be told of one, the test is skipped.
func Ended(t testing.TB) string {
	t.Helper()
	ended := exec.Command(os.Args[0], "-test.run=^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	name := strings.Replace(process.Self(), fmt.Sprintf("pid %d ", os.Getpid()), fmt.Sprintf("pid %d ", ended.Process.Pid), 1)
	if !process.Gone(name) {
		t.Skip("NOT TESTED: this system doesn't tell which processes have ended")
	}
	return name
}
