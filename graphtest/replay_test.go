package graphtest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
)

// booth is an assistant that asks a model: what the recording in testdata is of.
func booth(model func(prompt string) (string, error), greeting string, opts ...graph.Option) *graph.Graph[State] {
	b := graph.New[State]("booth")
	b.AddNode("write", func(ctx context.Context, s *State) error {
		text, err := graph.Once(ctx, "ask the model", func(context.Context, string) (string, error) { return model(s.Topic) })
		if err != nil {
			return err
		}
		s.Jokes.Add(greeting + text)
		return nil
	})
	b.AddNode("review", func(ctx context.Context, s *State) error {
		ok, err := graph.Interrupt[bool](ctx, "review", s.Jokes.Last())
		s.Approved = ok
		return err
	})
	b.AddEdge(graph.Start, "write").AddEdge("write", "review")
	b.AddConditionalEdges("review", func(_ context.Context, s *State) (graph.Command, error) {
		if s.Approved {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("write"), nil
	}, "write", graph.End)
	return b.MustCompile(opts...)
}

var boothFile = filepath.Join("testdata", "booth.jsonl")

// The recording is that of a conversation with a model that is not there any more.
func TestTheBoothReplays(t *testing.T) {
	if os.Getenv("GRAPHTEST_UPDATE") == "1" {
		store := checkpoint.NewMemory()
		n := 0
		g := booth(func(prompt string) (string, error) {
			n++
			return fmt.Sprintf("joke %d about %s", n, prompt), nil
		}, "", graph.WithCheckpointer(store), graph.RecordOnce())
		graphtest.Drive(t, g.Thread("booth"), func(s *State) error {
			s.Topic = "cats"
			return nil
		}, graphtest.Script{"review": {false, true}})
		var b bytes.Buffer
		if err := recording.Export(t.Context(), store, "booth", &b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(boothFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	graphtest.Replay(t, booth(func(string) (string, error) { panic("a replay asks no model") }, ""), boothFile)
}

func TestReplayFails(t *testing.T) {
	for path, want := range map[string]string{
		boothFile:        `graph "booth" differs from testdata/booth.jsonl (thread "booth", checkpoint`,
		"none":           "no such file",
		"replay_test.go": "not a recording",
	} {
		tb := &recorder{TB: t}
		func() {
			defer func() { _ = recover() }()
			graphtest.Replay(tb, booth(nil, "Hear: "), path)
		}()
		if !strings.Contains(tb.text, filepath.FromSlash(want)) {
			t.Errorf("failure is %q, want %q", tb.text, want)
		}
	}
}

// recorder keeps the first failure of a test.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Errorf(format string, args ...any) {
	if r.text == "" {
		r.text = fmt.Sprintf(format, args...)
	}
}
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); panic(r.text) }

// A change of the program shows at the first step that it changes.
func ExampleReplay() {
	model := func(string) (string, error) { panic("a replay asks no model") }
	graphtest.Replay(tExample{}, booth(model, ""), "testdata/booth.jsonl")
	graphtest.Replay(tExample{}, booth(model, "Listen: "), "testdata/booth.jsonl")
	// Output:
	// step 1, node "write": state "Jokes"
	//   recorded: ["joke 1 about cats"]
	//   now:      ["Listen: joke 1 about cats"]
}

// tExample prints what differs, without the IDs.
type tExample struct{ printer }

func (tExample) Logf(string, ...any) {}
func (tExample) Errorf(format string, args ...any) {
	_, text, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	fmt.Println(text)
}
