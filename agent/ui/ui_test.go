package ui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent/ui"
	"github.com/superstep-dev/superstep/graph"
)

type page struct {
	UI ui.Messages `json:"ui"`
}

// weather shows a card and fills it in later.
func weather() *graph.Graph[page] {
	b := graph.New[page]("weather")
	b.AddNode("ask", func(ctx context.Context, s *page) error {
		_, err := ui.Push(ctx, &s.UI, "card", map[string]any{"city": "Oslo"}, ui.ID("oslo"), ui.Beside("m-1"))
		return err
	})
	b.AddNode("tell", func(ctx context.Context, s *page) error {
		_, err := ui.Push(ctx, &s.UI, "card", map[string]any{"degrees": 3}, ui.ID("oslo"), ui.Merge())
		return err
	})
	b.AddEdge(graph.Start, "ask")
	b.AddEdge("ask", "tell")
	return b.MustCompile()
}

func Example() {
	ctx := context.Background()
	g := weather()
	for ev, err := range g.Stream(ctx, func(*page) error { return nil }, graph.Modes(graph.ModeCustom)) {
		if err != nil {
			panic(err)
		}
		data, _ := json.Marshal(ev.Value)
		fmt.Println(string(data))
	}
	snap, err := g.Invoke(ctx, func(*page) error { return nil })
	if err != nil {
		panic(err)
	}
	data, _ := json.Marshal(snap.State.UI)
	fmt.Println(string(data))
	// Output:
	// {"type":"ui","id":"oslo","name":"card","props":{"city":"Oslo"},"metadata":{"message_id":"m-1"}}
	// {"type":"ui","id":"oslo","name":"card","props":{"degrees":3},"metadata":{"merge":true}}
	// [{"type":"ui","id":"oslo","name":"card","props":{"city":"Oslo","degrees":3},"metadata":{"merge":true,"message_id":"m-1"}}]
}

func TestWhatIsPushedAgainReplacesAndWhatIsRemovedIsGone(t *testing.T) {
	var ids []string
	b := graph.New[page]("shows")
	b.AddNode("show", func(ctx context.Context, s *page) error {
		if err := ui.Remove(ctx, &s.UI, "none"); err != nil {
			return err
		}
		for _, name := range []string{"chart", "chart", "form"} {
			id, err := ui.Push(ctx, &s.UI, name, nil)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if _, err := ui.Push(ctx, &s.UI, "map", nil, ui.ID(ids[0])); err != nil {
			return err
		}
		for _, id := range []string{ids[1], "none"} {
			if err := ui.Remove(ctx, &s.UI, id); err != nil {
				return err
			}
		}
		return nil
	})
	b.AddEdge(graph.Start, "show")
	snap, err := b.MustCompile().Invoke(t.Context(), func(*page) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range snap.State.UI.Get() {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, " "); got != "map form" || ids[0] == ids[1] {
		t.Errorf("shown are %q, with the IDs %q", got, ids)
	}
}

func TestAComponentNeedsANameAndPropsThatAreAnObject(t *testing.T) {
	b := graph.New[page]("wrong")
	b.AddNode("show", func(ctx context.Context, s *page) error {
		for want, push := range map[string]func() (string, error){
			"has a name": func() (string, error) { return ui.Push(ctx, &s.UI, "", nil) },
			"no object":  func() (string, error) { return ui.Push(ctx, &s.UI, "chart", []int{1}) },
			"the props":  func() (string, error) { return ui.Push(ctx, &s.UI, "chart", map[string]any{"f": func() {}}) },
		} {
			if _, err := push(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want it to say %q", err, want)
			}
		}
		return nil
	})
	b.AddEdge(graph.Start, "show")
	if _, err := b.MustCompile().Invoke(t.Context(), func(*page) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var m ui.Messages
	if _, err := ui.Push(context.Background(), &m, "chart", nil); err == nil {
		t.Error("outside a node nothing is refused")
	}
}
