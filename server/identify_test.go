package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// spoken is the state of a graph whose nodes say things without IDs.
type spoken struct {
	Messages chat.History `json:"messages"`
	Steps    int          `json:"steps"`
}

func chorus(t testing.TB) *graph.Graph[spoken] {
	t.Helper()
	in := graph.New[spoken]("inner")
	in.AddNode("whisper", func(ctx context.Context, s *spoken) error {
		s.Messages.Add(chat.AI("psst"))
		return nil
	})
	in.AddEdge(graph.Start, "whisper")
	b := graph.New[spoken]("chorus")
	says := func(text string) func(context.Context, *spoken) error {
		return func(_ context.Context, s *spoken) error {
			s.Messages.Add(chat.AI(text))
			return nil
		}
	}
	b.AddNode("left", says("la")).AddNode("right", says("la")).AddNode("last", says("fin"))
	b.AddNode("count", func(_ context.Context, s *spoken) error { s.Steps++; return nil })
	graph.AddSubgraph(b, "sub", in.MustCompile(), graph.Mapping[spoken, spoken]{
		In:  func(*spoken, *spoken) {},
		Out: func(c, p *spoken) { p.Messages.Add(c.Messages.Last()) },
	})
	for _, node := range []string{"left", "right", "count", "sub"} {
		b.AddEdge(graph.Start, node)
	}
	b.AddJoin([]string{"left", "right", "count", "sub"}, "last")
	return b.MustCompile()
}

func TestAMessageHasOneIDInAllThatIsTold(t *testing.T) {
	c := start(t, server.Graph(chorus(t)))
	thread := newThread()
	var updates, results, whole, order []string
	var final object
	for _, ev := range c.streamed("/threads/"+thread+"/runs/stream", object{
		"assistant_id": "chorus", "input": object{}, "if_not_exists": "create", "stream_subgraphs": true, "stream_mode": []string{"updates", "tasks", "messages-tuple", "values"},
	}) {
		name, _, inside := strings.Cut(ev.event, "|")
		data := func() object { return ev.data.(object) }
		said := func(v any) (list []string) {
			messages, _ := v.(object)["messages"].([]any)
			for _, m := range messages {
				list = append(list, fmt.Sprint(m.(object)["content"], " ", m.(object)["id"]))
			}
			return list
		}
		switch name {
		case "updates":
			for node, update := range data() {
				if !inside {
					order = append(order, node)
				}
				updates = append(updates, said(update)...)
			}
		case "tasks":
			if result, ok := data()["result"].(object); ok {
				results = append(results, said(result)...)
			}
		case "messages":
			whole = append(whole, said(object{"messages": ev.data.([]any)[:1]})...)
		case "values":
			if !inside {
				final = data()
			}
		}
	}
	var want []string
	for _, m := range final["messages"].([]any) {
		want = append(want, fmt.Sprint(m.(object)["content"], " ", m.(object)["id"]))
	}
	if len(want) != 4 || slices.ContainsFunc(want, func(s string) bool { return strings.HasSuffix(s, " ") || strings.HasSuffix(s, "<nil>") }) {
		t.Fatalf("the state has %q", want)
	}
	for what, got := range map[string][]string{"updates": updates, "tasks": results, "messages": whole} {
		for _, m := range want {
			if !slices.Contains(got, m) {
				t.Errorf("%s tell %q, and not %q", what, got, m)
			}
		}
	}
	if got := strings.Join(order, " "); got != "left right count sub last" {
		t.Errorf("the updates came as %s", got)
	}
}

func TestARunThatGoesOnFirstTellsTheValuesThatItGoesOnFrom(t *testing.T) {
	type inner struct {
		Word string `json:"word"`
	}
	in := graph.New[inner]("inner")
	in.AddNode("ask", func(ctx context.Context, s *inner) (err error) {
		s.Word, err = graph.Interrupt[string](ctx, "word", s.Word)
		return err
	}).AddEdge(graph.Start, "ask")
	out := graph.New[inner]("outer")
	graph.AddSubgraph(out, "sub", in.MustCompile(), graph.Mapping[inner, inner]{
		In:  func(p, c *inner) { c.Word = "in " + p.Word },
		Out: func(c, p *inner) { p.Word = c.Word },
	})
	out.AddEdge(graph.Start, "sub")
	c := start(t, server.Graph(out.MustCompile()))
	thread := newThread()
	told := func(body object) (got []string) {
		body["assistant_id"], body["if_not_exists"], body["stream_subgraphs"] = "outer", "create", true
		for _, ev := range c.streamed("/threads/"+thread+"/runs/stream", body) {
			data, err := json.Marshal(ev.data)
			if err != nil {
				t.Fatal(err)
			}
			if name, ns, _ := strings.Cut(ev.event, "|"); name == "values" && !strings.Contains(string(data), "__interrupt__") {
				node, _, _ := strings.Cut(ns, ":")
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s", node, data)))
			}
		}
		return got
	}
	if got, want := told(object{"input": object{"word": "a"}}), []string{`{"word":"a"}`, `sub {"word":"in a"}`}; !slices.Equal(got, want) {
		t.Errorf("an input tells %q, want %q", got, want)
	}
	if got, want := told(object{"input": nil}), []string{`{"word":"a"}`, `sub {"word":"in a"}`}; !slices.Equal(got, want) {
		t.Errorf("going on tells %q, want %q", got, want)
	}
	if got, want := told(object{"command": object{"resume": "b"}}), []string{`{"word":"a"}`, `sub {"word":"in a"}`, `sub {"word":"b"}`, `{"word":"b"}`}; !slices.Equal(got, want) {
		t.Errorf("an answer tells %q, want %q", got, want)
	}
}
