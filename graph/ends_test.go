package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

// office is a state of which callers see little: what they give is a ticket, and what
// they get a reply.
type office struct {
	Text    string
	Urgent  bool
	Secret  string
	Trail   graph.List[string]
	Replies int
}

type ticket struct {
	Text     string `json:"text"`
	Priority int8   `json:"priority,omitempty"`
}

type reply struct {
	Text string `json:"text"`
	Left int    `json:"left"`
}

func takeTicket(s *office, in ticket) error {
	if in.Text == "" {
		return errors.New("an empty ticket")
	}
	s.Text, s.Urgent = in.Text, in.Priority > 5
	return nil
}

func giveReply(s *office) reply { return reply{Text: "re: " + s.Text, Left: s.Replies} }

func helpOffice(t *testing.T, fn func(context.Context, *office) error) *graph.Graph[office] {
	b := graph.New[office]("office")
	graph.SetInput(b, takeTicket)
	graph.SetOutput(b, giveReply)
	b.AddNode("think", func(ctx context.Context, s *office) error {
		s.Secret = "the boss is " + s.Text
		s.Trail.Add("thought")
		if fn == nil {
			return nil
		}
		return fn(ctx, s)
	})
	b.AddEdge(graph.Start, "think")
	return compile(t, b, stored()...)
}

func output(t *testing.T, s interface {
	OutputJSON() (json.RawMessage, error)
}) string {
	t.Helper()
	return string(must[json.RawMessage](t)(s.OutputJSON()))
}

func TestARunTakesItsInputTypeAndGivesItsOutputType(t *testing.T) {
	g := helpOffice(t, nil)
	j := graph.JSON(g)
	th := j.Thread("t")
	var values []string
	for ev, err := range th.Stream(bg, th.Input(graph.UpdateWith([]byte(`{"text": "late", "priority": 7}`))), graph.Modes(graph.ModeValues)) {
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, string(must[json.RawMessage](t)(ev.OutputJSON())))
		if state := string(must[json.RawMessage](t)(ev.StateJSON())); !strings.Contains(state, "Secret") {
			t.Errorf("the event's state is %s", state)
		}
	}
	equalSlice(t, "values", values, []string{`{"text":"re: late","left":0}`, `{"text":"re: late","left":0}`})

	// The thread keeps the whole state.
	snap := must[*graph.Snapshot[json.RawMessage]](t)(th.State(bg))
	equal(t, "state", string(snap.State), `{"Text":"late","Urgent":true,"Secret":"the boss is late","Trail":["thought"],"Replies":0}`)
	equal(t, "output", output(t, snap), `{"text":"re: late","left":0}`)
	equal(t, "output of a typed thread", output(t, must[*graph.Snapshot[office]](t)(g.Thread("t").State(bg))), `{"text":"re: late","left":0}`)

	// In Go the functions are all that there is to it.
	in := ticket{Text: "lost"}
	typed := must[*graph.Snapshot[office]](t)(g.Thread("u").Invoke(bg, g.Input(func(s *office) error { return takeTicket(s, in) })))
	equal(t, "reply", giveReply(&typed.State), reply{Text: "re: lost"})
}

func TestEditsOfAGraphWithAnInputTypeAreUpdatesOfItsState(t *testing.T) {
	j := graph.JSON(helpOffice(t, func(ctx context.Context, s *office) error {
		n, err := graph.Interrupt[int](ctx, "left", "how many?")
		s.Replies += n
		return err
	}))
	th := j.Thread("t")
	must[*graph.Snapshot[json.RawMessage]](t)(th.Invoke(bg, th.Input(graph.UpdateWith([]byte(`{"text": "late"}`)))))
	must[*graph.Snapshot[json.RawMessage]](t)(th.Edit(bg, graph.UpdateWith([]byte(`{"Replies": 40}`))))
	must[*graph.Snapshot[json.RawMessage]](t)(th.Invoke(bg, th.Input(graph.UpdateWith([]byte(`{"Text": "later"}`))).AsUpdate()))
	snap := must[*graph.Snapshot[json.RawMessage]](t)(th.Invoke(bg, th.Answer(2, graph.UpdateWith([]byte(`{"Trail": ["answered"]}`)))))
	equal(t, "state", string(snap.State), `{"Text":"later","Urgent":false,"Secret":"the boss is later","Trail":["answered","thought"],"Replies":42}`)
	equal(t, "output", output(t, snap), `{"text":"re: later","left":42}`)
	snap = must[*graph.Snapshot[json.RawMessage]](t)(th.Invoke(bg, th.Restart(graph.UpdateWith([]byte(`{"text": "again"}`)))))
	equal(t, "restarted", output(t, snap), `{"text":"re: again","left":42}`)
}

func TestAnInputThatIsNotOfItsTypeIsRefused(t *testing.T) {
	ran := false
	g := helpOffice(t, func(context.Context, *office) error { ran = true; return nil })
	j := graph.JSON(g)
	for data, want := range map[string]string{
		`{"txet": "late"}`:               `field "text": is missing, a string` + "\n" + `field "txet": unknown field; did you mean "text"?`,
		`{"text": 5}`:                    `field "text": must be a string, not a number`,
		`{"text": "a", "priority": 1e3}`: `field "priority": must be at most 127`,
		`{"text": "a", "text": "b"}`:     `field "text": it is there twice; give it once`,
		`[]`:                             `input: must be an object, not an array`,
		`null`:                           `input: must be an object, not null`,
		`{`:                              `input: unexpected end of JSON input`,
		`{"Text": "late"}`:               `field "text": is missing, a string` + "\n" + `field "Text": unknown field; did you mean "text"?`,
	} {
		_, err := j.Thread("r").Invoke(bg, j.Input(graph.UpdateWith([]byte(data))))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", data, err)
		}
		if err := j.CheckJSON(graph.JSONInput, []byte(data)); err == nil || err.Error() != want {
			t.Errorf("check of %s: %v", data, err)
		}
	}
	// What the function refuses depends on the state: no check can know.
	if err := j.CheckJSON(graph.JSONInput, []byte(`{"text": ""}`)); err != nil {
		t.Error(err)
	}
	th := j.Thread("r")
	if _, err := th.Invoke(bg, th.Input(graph.UpdateWith([]byte(`{"text": ""}`)))); err == nil || err.Error() != "an empty ticket" {
		t.Errorf("a refused input: %v", err)
	}
	if _, err := th.State(bg); err == nil {
		t.Error("a refused input has begun the thread")
	}
	if ran {
		t.Error("a refused input ran the graph")
	}
	if err := j.CheckJSON(graph.JSONOutput, []byte(`{}`)); err == nil {
		t.Error("an output is checked as if it were given")
	}
}

func TestSchemasTellWhatAGraphTakesAndGives(t *testing.T) {
	names := func(g *graph.Graph[office], kind graph.JSONKind) string {
		var s struct{ Properties map[string]any }
		if err := json.Unmarshal(must[json.RawMessage](t)(g.JSONSchema(kind)), &s); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(s.Properties["text"] != nil, s.Properties["left"] != nil, s.Properties["Secret"] != nil)
	}
	g := helpOffice(t, nil)
	equal(t, "input", names(g, graph.JSONInput), "true false false")
	equal(t, "output", names(g, graph.JSONOutput), "true true false")
	equal(t, "state", names(g, graph.JSONState), "false false true")
	equal(t, "update", names(g, graph.JSONUpdate), "false false true")

	plain := compile(t, graph.New[office]("plain").AddNode("a", func(context.Context, *office) error { return nil }).AddEdge(graph.Start, "a"))
	for as, kind := range map[graph.JSONKind]graph.JSONKind{graph.JSONInput: graph.JSONUpdate, graph.JSONOutput: graph.JSONState} {
		equal(t, "without a type", string(must[json.RawMessage](t)(plain.JSONSchema(as))), string(must[json.RawMessage](t)(plain.JSONSchema(kind))))
	}
	equal(t, "output", output(t, must[*graph.Snapshot[office]](t)(plain.Invoke(bg, nil))), `{"Text":"","Urgent":false,"Secret":"","Trail":[],"Replies":0}`)
}

func TestSubgraphsShowTheirOwnOutput(t *testing.T) {
	b := graph.New[trail]("outer")
	graph.AddSubgraph(b, "office", helpOffice(t, nil), graph.Mapping[trail, office]{In: func(p *trail, c *office) { c.Text = p.Note }})
	b.AddEdge(graph.Start, "office")
	var shown []string
	for ev, err := range compile(t, b).Stream(bg, func(s *trail) error { s.Note = "direct"; return nil }, graph.Modes(graph.ModeValues)) {
		if err != nil {
			t.Fatal(err)
		}
		if len(ev.Path) > 0 {
			shown = append(shown, string(must[json.RawMessage](t)(ev.OutputJSON())))
		}
	}
	equal(t, "last", shown[len(shown)-1], `{"text":"re: direct","left":0}`)
}

func TestAPanicOfAnOutputIsAnError(t *testing.T) {
	b := one(func(context.Context, *trail) error { return nil })
	graph.SetOutput(b, func(s *trail) int { return 1 / s.N })
	_, err := must[*graph.Snapshot[trail]](t)(compile(t, b).Invoke(bg, nil)).OutputJSON()
	wantErr[*graph.PanicError](t, err)
}

func TestInputAndOutputTypesAreChecked(t *testing.T) {
	for want, make := range map[string]func(b *graph.Builder[trail]){
		"the function is nil": func(b *graph.Builder[trail]) { graph.SetInput[int](b, nil) },
		"it is set already": func(b *graph.Builder[trail]) {
			graph.SetOutput(graph.SetOutput(b, func(*trail) int { return 0 }), func(*trail) string { return "" })
		},
		"func()": func(b *graph.Builder[trail]) { graph.SetOutput(b, func(*trail) (o struct{ F func() }) { return }) },
		"chan int": func(b *graph.Builder[trail]) {
			graph.SetInput(b, func(*trail, struct{ C chan int }) error { return nil })
		},
	} {
		b := one(func(context.Context, *trail) error { return nil })
		make(b)
		_, err := b.Compile()
		if problems := wantErr[*graph.CompileError](t, err).Problems; len(problems) == 0 || !strings.Contains(problems[0].Text, want) {
			t.Errorf("%s: %v", want, problems)
		}
	}
}
