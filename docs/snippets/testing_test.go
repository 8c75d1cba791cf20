package snippets_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
)

// Booking is the state of an assistant that books flights.
type Booking struct {
	Message string
	Intent  string
	Origin  string
	Log     graph.List[string]
}

// Model is what the assistant needs: the tests use a scripted one.
type Model interface {
	Classify(ctx context.Context, text string) (string, error)
}

func understand(ctx context.Context, s *Booking) error {
	model, err := graph.Deps[Model](ctx)
	if err != nil {
		return err
	}
	s.Intent, err = model.Classify(ctx, s.Message)
	return err
}

func askOrigin(ctx context.Context, s *Booking) error {
	origin, err := graph.Interrupt[string](ctx, "origin", "Where do you fly from?")
	if err != nil {
		return err
	}
	s.Origin = origin
	return nil
}

func note(_ context.Context, s *Booking) error {
	s.Log.Add(s.Intent + " from " + s.Origin)
	return nil
}

func byIntent(_ context.Context, s *Booking) (graph.Command, error) {
	if s.Intent == "book_flight" {
		return graph.Goto("ask origin"), nil
	}
	return graph.Goto("note"), nil
}

func booking() *graph.Builder[Booking] {
	b := graph.New[Booking]("booking")
	b.AddNode("understand", understand)
	b.AddNode("ask origin", askOrigin)
	b.AddNode("note", note)
	b.AddEdge(graph.Start, "understand")
	b.AddConditionalEdges("understand", byIntent, "ask origin", "note")
	return b.AddEdge("ask origin", "note")
}

//snippet:node

func TestNote(t *testing.T) {
	s := &Booking{Intent: "book_flight", Origin: "Oslo"}
	if err := note(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := s.Log.Slice(); !slices.Equal(got, []string{"book_flight from Oslo"}) {
		t.Errorf("log is %v", got)
	}
}

//snippet:end

//snippet:router

func TestByIntent(t *testing.T) {
	for intent, want := range map[string]string{"book_flight": "ask origin", "smalltalk": "note"} {
		command, err := byIntent(t.Context(), &Booking{Intent: intent})
		if err != nil || !slices.Equal(command.Nodes(), []string{want}) {
			t.Errorf("%s leads to %v, %v", intent, command, err)
		}
	}
}

//snippet:end

//snippet:script

// scripted is a model that gives known answers.
type scripted map[string]string

func (s scripted) Classify(_ context.Context, text string) (string, error) {
	intent, ok := s[text]
	if !ok {
		return "", errors.New("the script has no answer to " + text)
	}
	return intent, nil
}

// conversation returns a new thread, with a scripted model and a store in memory.
func conversation(t *testing.T, model Model) *graph.Thread[Booking] {
	t.Helper()
	g, err := booking().Compile(
		graph.WithCheckpointer(checkpoint.NewMemory()),
		graph.UseDeps(model),
		graph.CheckMutations())
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread(t.Name())
}

// says is input: what the user says.
func says(message string) func(*Booking) error {
	return func(s *Booking) error {
		s.Message = message
		return nil
	}
}

//snippet:end

//snippet:turns

func TestBookingAsksForTheOrigin(t *testing.T) {
	talk := conversation(t, scripted{"Book a flight": "book_flight"})

	snap, err := talk.Invoke(t.Context(), talk.Input(says("Book a flight")))
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Interrupts) == 0 || snap.Interrupts[0].Key != "origin" {
		t.Fatalf("waits for %v", snap.Interrupts)
	}

	snap, err = talk.Invoke(t.Context(), talk.Answer("New York"))
	if err != nil {
		t.Fatal(err)
	}
	if snap.State.Origin != "New York" || !snap.Done() {
		t.Errorf("origin is %q, next %v", snap.State.Origin, snap.Next)
	}
}

func TestIntents(t *testing.T) {
	model := scripted{
		"Book a flight":         "book_flight",
		"Check my booking":      "check_booking",
		"Cancel my reservation": "cancel_booking",
	}
	for message, want := range model {
		t.Run(want, func(t *testing.T) {
			talk := conversation(t, model)
			snap, err := talk.Invoke(t.Context(), talk.Input(says(message)))
			if err != nil || snap.State.Intent != want {
				t.Errorf("intent is %q, %v", snap.State.Intent, err)
			}
		})
	}
}

//snippet:end

//snippet:failure

// flaky is a model that fails a number of times.
type flaky struct {
	Model
	failures int
}

func (f *flaky) Classify(ctx context.Context, text string) (string, error) {
	if f.failures > 0 {
		f.failures--
		return "", errors.New("model is down")
	}
	return f.Model.Classify(ctx, text)
}

func TestConversationGoesOnAfterAFailure(t *testing.T) {
	talk := conversation(t, &flaky{scripted{"hello": "smalltalk"}, 1})

	_, err := talk.Invoke(t.Context(), talk.Input(says("hello")))
	if failed, ok := errors.AsType[*graph.NodeError](err); !ok || failed.Node != "understand" {
		t.Fatalf("error is %v", err)
	}
	snap, err := talk.Invoke(t.Context(), talk.Continue())
	if err != nil || !snap.Done() {
		t.Errorf("next is %v, %v", snap.Next, err)
	}
}

//snippet:end

//snippet:edit

func TestNoteAloneFromTheMiddle(t *testing.T) {
	talk := conversation(t, scripted{})
	_, err := talk.EditAs(t.Context(), "ask origin", func(s *Booking) error {
		s.Intent, s.Origin = "book_flight", "Rome"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := talk.Invoke(t.Context(), talk.Continue())
	if err != nil || snap.State.Log.Last() != "book_flight from Rome" {
		t.Errorf("log is %v, %v", snap.State.Log, err)
	}
}

//snippet:end

//snippet:graphtest

func TestBookingSurvivesCrashes(t *testing.T) {
	input := says("Book a flight")
	answers := graphtest.Script{"origin": {"New York"}}
	model := graph.UseDeps[Model](scripted{"Book a flight": "book_flight"})

	graphtest.CheckIdempotent(t, booking, input, answers, model)
	graphtest.CheckRecovery(t, booking, input, answers, model)
	graphtest.CheckDeterministic(t, 20, booking, input, answers, model)
}

//snippet:end

//snippet:inject

func TestBookingAfterAnInjectedFault(t *testing.T) {
	b := booking()
	in := graphtest.Inject(b, graphtest.FailAt("note", 1))
	model := graph.UseDeps[Model](scripted{"hello": "smalltalk"})
	g := b.MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()), model)

	talk := g.Thread("t-1")
	if _, err := talk.Invoke(t.Context(), talk.Input(says("hello"))); err == nil {
		t.Fatal("the fault is not reported")
	}
	if _, err := talk.Invoke(t.Context(), talk.Continue()); err != nil {
		t.Fatal(err)
	}
	if n := in.Runs("understand"); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	in.Check(t) // every fault happened
}

//snippet:end
