package stores_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/calls"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/codec"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/race"
	"github.com/superstep-dev/superstep/model"
)

// talks is a graph with one agent, which says each bytes in a turn.
func talks(t *testing.T, s checkpoint.Store, each int, opts ...graph.Option) *graph.Graph[agent.State] {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	m := model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Assistant(prose(r, each))}, nil
	})
	g, err := agent.New(agent.ReAct[agent.State]{Model: m, Instruction: prose(r, 2000)}, append(opts, graph.WithCheckpointer(s))...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func talk(t *testing.T, th *graph.Thread[agent.State], turns, each int) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	for range turns {
		if _, err := th.Invoke(t.Context(), graph.Requests[agent.State]{}.Input(agent.Ask[agent.State](prose(r, each)))); err != nil {
			t.Fatal(err)
		}
	}
}

// Each prompt has all that was said before: what it has in common with others is stored once.
func TestCallsOfModelsTakeAboutAsMuchAsTheConversation(t *testing.T) {
	const turns, each = 200, 500
	for kind := range forms {
		if race.Enabled && kind != "file" && kind != "sqlite" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			ratio := func(url string, opts ...graph.Option) float64 {
				if kind == "file" {
					url += "?sync=never"
				}
				s, err := stores.Open(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				talk(t, talks(t, s, each, opts...).Thread("t"), turns, each)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return float64(sizes[kind](t, url)) / (turns * 2 * each)
			}
			without, with := ratio(forms[kind].open(t), calls.Off()), ratio(forms[kind].open(t))
			t.Logf("%.2f times the messages without, %.2f with calls", without, with)
			if with > without+2.5 {
				t.Errorf("calls take %.2f times the messages", with-without)
			}
		})
	}
}

// openedAs opens a store of a kind, encrypted or not, until the test ends.
func openedAs(t *testing.T, kind string, sealed bool) checkpoint.Store {
	t.Helper()
	s, err := stores.Open(t.Context(), forms[kind].open(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if !sealed {
		return s
	}
	k, err := codec.NewKey("k", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := codec.Wrap(s, codec.Options{Keys: &codec.KeyRing{Current: k}})
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

func TestCallsOfModelsAreCopiedExportedEncryptedAndRemoved(t *testing.T) {
	for kind := range forms {
		for _, sealed := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, ", encrypted: ", sealed), func(t *testing.T) {
				s := openedAs(t, kind, sealed)
				g := talks(t, s, 50)
				talk(t, g.Thread("t"), 3, 50)
				if err := s.(checkpoint.Copier).Copy(t.Context(), "t", "copy"); err != nil {
					t.Fatal(err)
				}
				var file bytes.Buffer
				if err := recording.Export(t.Context(), s, "t", &file); err != nil {
					t.Fatal(err)
				}
				if _, err := recording.Import(t.Context(), s, &file, "import"); err != nil {
					t.Fatal(err)
				}
				for _, thread := range []string{"t", "copy", "import"} {
					talk(t, g.Thread(thread), 1, 50)
					n := 0
					for c, err := range calls.List(t.Context(), s, thread, calls.Query{}) {
						if err == nil {
							err = c.Load(t.Context())
						}
						if err != nil {
							t.Fatal(thread, err)
						}
						if got, want := len(c.Request.Messages), 2*(4-n); got != want || c.Answer == nil {
							t.Errorf("%s: call %d has %d messages, want %d", thread, n, got, want)
						}
						n++
					}
					if n != 4 {
						t.Errorf("%s: %d calls", thread, n)
					}
				}
				if err := g.Thread("t").Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
				if rs, err := s.Results(t.Context(), checkpoint.Log{Thread: "t"}, "", checkpoint.PartsEpoch); err != nil || len(rs) > 0 {
					t.Errorf("%d parts of a thread that was deleted, %v", len(rs), err)
				}
			})
		}
	}
}
