package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/superstep-dev/superstep/a2a"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
	"github.com/superstep-dev/superstep/server"
)

type ours struct {
	City string
	Made string
}

// dial returns a client of an agent.
func dial(t testing.TB, url string) *a2aclient.Client {
	t.Helper()
	c, err := a2aclient.NewFromEndpoints(t.Context(), []*proto.AgentInterface{proto.NewAgentInterface(url, proto.TransportProtocolJSONRPC)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// calls is a graph whose node has a task done by an agent.
func calls(c *a2aclient.Client, content func(s *ours) *proto.Part) *graph.Builder[ours] {
	b := graph.New[ours]("ours")
	a2a.AddAgent(b, "trip", a2a.Agent[ours]{
		Client:  c,
		Message: func(_ context.Context, s *ours) ([]*proto.Part, error) { return []*proto.Part{content(s)}, nil },
		Output: func(_ context.Context, s *ours, t *proto.Task) error {
			for _, one := range t.Artifacts {
				for _, p := range one.Parts {
					s.Made += fmt.Sprint(p.Text(), p.Data())
				}
			}
			return nil
		},
	})
	return b.AddEdge(graph.Start, "trip")
}

func city(s *ours) *proto.Part { return proto.NewDataPart(map[string]string{"city": s.City}) }
func hello(*ours) *proto.Part  { return proto.NewTextPart("Hello") }
func toBonn(s *ours) error     { s.City = "Bonn"; return nil }

func TestWhatAnAgentAsksIsAnsweredHereInAnotherProcess(t *testing.T) {
	url := serve(t, server.Graph(booking())).URL + "/a2a/booking"
	store := checkpoint.NewMemory()
	thread := func() *graph.Thread[ours] {
		return calls(dial(t, url), city).MustCompile(graph.WithCheckpointer(store)).Thread("t-1")
	}
	th := thread()
	snap, err := th.Invoke(t.Context(), th.Input(toBonn))
	for _, step := range []struct {
		asked  string
		answer any
	}{{`seat Which seat? {"type":"string"}`, "12a"}, {`sure map[book:Bonn] {"type":"boolean"}`, true}} {
		if err != nil {
			t.Fatal(err)
		}
		q := snap.Interrupts[0]
		if got := fmt.Sprintf("%s %v %s", q.Key, q.Value, q.Schema); got != step.asked {
			t.Errorf("it asks %s, want %s", got, step.asked)
		}
		th = thread()
		snap, err = th.Invoke(t.Context(), th.Answer(step.answer))
	}
	if err != nil || snap.State.Made != "map[city:Bonn notes:[seat 12a sure true]]" {
		t.Errorf("it made %s, %v", snap.State.Made, err)
	}
	if list, _ := ask(t, url, "", "ListTasks", object{}); fmt.Sprint(list["totalSize"]) != "1" {
		t.Errorf("there are the tasks %v", list)
	}
}

// CheckRecovery kills the run at each of its writes.
func TestARunThatIsKilledAnywhereHasItsTaskDoneOnce(t *testing.T) {
	url := serve(t, server.Graph(booking())).URL + "/a2a/booking"
	c := dial(t, url)
	runs := 0
	graphtest.CheckRecovery(t, func() *graph.Builder[ours] { runs++; return calls(c, city) }, toBonn, graphtest.Script{"seat": {"1"}, "sure": {true}})
	list, _ := ask(t, url, "", "ListTasks", object{"pageSize": 100})
	contexts := map[any]bool{}
	for _, task := range list["tasks"].([]any) {
		if c := task.(object)["contextId"]; contexts[c] {
			t.Errorf("context %v has two tasks", c)
		} else {
			contexts[c] = true
		}
	}
	if len(contexts) < 4 {
		t.Errorf("there are %d tasks: nothing was killed", len(contexts))
	}
}

func TestTheStreamOfAnAgentIsPassedOn(t *testing.T) {
	web := serve(t, server.Graph(booking()), server.Graph(parrot(t)))
	for _, tt := range []struct {
		agent string
		part  func(*ours) *proto.Part
		want  string
	}{{"parrot", hello, "Good |day |to |you."}, {"booking", city, `{"booking":"Bonn"}`}} {
		th := calls(dial(t, web.URL+"/a2a/"+tt.agent), tt.part).MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
		var told []string
		for ev, err := range th.Stream(t.Context(), th.Input(toBonn), graph.Modes(graph.ModeMessages, graph.ModeCustom)) {
			if err != nil {
				t.Fatal(err)
			}
			switch v := ev.Value.(type) {
			case chat.Chunk:
				told = append(told, v.Text)
			case nil:
			default:
				told = append(told, fmt.Sprintf("%s", v))
			}
		}
		if got := strings.Join(told, "|"); got != tt.want {
			t.Errorf("%s streams %s, want %s", tt.agent, got, tt.want)
		}
	}
}

func TestACancelledRunCancelsTheTaskWhichIsBegunAgainWithIt(t *testing.T) {
	entered, open := make(chan struct{}, 9), make(chan struct{})
	url := serve(t, server.Graph(gate(entered, open))).URL + "/a2a/gate"
	th := calls(dial(t, url), city).MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if _, err := th.Invoke(ctx, th.Input(toBonn)); !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled run ends with %v", err)
	}
	if list, _ := ask(t, url, "", "ListTasks", object{"status": "TASK_STATE_CANCELED"}); fmt.Sprint(list["totalSize"]) != "1" {
		t.Errorf("cancelled are %v", list)
	}
	close(open)
	snap, err := th.Invoke(t.Context(), th.Continue())
	if err != nil || snap.State.Made != "map[city:Bonn notes:[through]]" {
		t.Errorf("then it made %s, %v", snap.State.Made, err)
	}
}

func TestADrainedRunLeavesTheTaskAtWork(t *testing.T) {
	entered, open := make(chan struct{}, 9), make(chan struct{})
	url := serve(t, server.Graph(gate(entered, open))).URL + "/a2a/gate"
	th := calls(dial(t, url), city).MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-entered; cancel(graph.ErrDrained) }() // as a server does that ends
	if _, err := th.Invoke(ctx, th.Input(toBonn)); !errors.Is(err, graph.ErrDrained) {
		t.Errorf("the drained run ends with %v", err)
	}
	close(open)
	snap, err := th.Invoke(t.Context(), th.Continue())
	if err != nil || snap.State.Made != "map[city:Bonn notes:[through]]" {
		t.Errorf("then it made %s, %v", snap.State.Made, err)
	}
	if list, _ := ask(t, url, "", "ListTasks", object{}); fmt.Sprint(list["totalSize"]) != "1" {
		t.Errorf("there are the tasks %v", list)
	}
}

func TestATaskThatFailsIsAnErrorAndBegunAgain(t *testing.T) {
	url := serve(t, server.Graph(boom())).URL + "/a2a/boom"
	th := calls(dial(t, url), city).MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
	for i, req := range []graph.Request[ours]{th.Input(toBonn), th.Continue()} {
		_, err := th.Invoke(t.Context(), req)
		if failed := (*a2a.Error)(nil); !errors.As(err, &failed) || failed.State != proto.TaskStateFailed || !strings.Contains(failed.Message, "out of paper") {
			t.Errorf("the run ends with %v", err)
		}
		if list, _ := ask(t, url, "", "ListTasks", object{}); fmt.Sprint(list["totalSize"]) != fmt.Sprint(i+1) {
			t.Errorf("there are the tasks %v", list)
		}
	}
}

// talker is an agent of the protocol's library: it asks in words, or answers without a
// task.
type talker struct{ asks bool }

func (a talker) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[proto.Event, error] {
	return func(yield func(proto.Event, error) bool) {
		switch {
		case !a.asks:
			yield(proto.NewMessage(proto.MessageRoleAgent, proto.NewTextPart("Hello yourself")), nil)
		case x.StoredTask == nil:
			if yield(proto.NewSubmittedTask(x, x.Message), nil) {
				yield(proto.NewStatusUpdateEvent(x, proto.TaskStateInputRequired, proto.NewMessageForTask(proto.MessageRoleAgent, x, proto.NewTextPart("Your name?"))), nil)
			}
		default:
			if yield(proto.NewArtifactEvent(x, proto.NewTextPart("Hello "+x.Message.Parts[0].Text())), nil) {
				yield(proto.NewStatusUpdateEvent(x, proto.TaskStateCompleted, nil), nil)
			}
		}
	}
}

func (talker) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[proto.Event, error] {
	return func(func(proto.Event, error) bool) {}
}

func TestAnAgentOfAnotherMakeAsksInWordsOrJustAnswers(t *testing.T) {
	for i := range 4 {
		asks, streams := i%2 == 0, i < 2
		web := httptest.NewServer(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(talker{asks}, a2asrv.WithCapabilityChecks(&proto.AgentCapabilities{Streaming: streams}))))
		defer web.Close()
		th := calls(dial(t, web.URL), hello).MustCompile(graph.WithCheckpointer(checkpoint.NewMemory())).Thread("t-1")
		snap, err := th.Invoke(t.Context(), th.Input(toBonn))
		want := "Hello yourself<nil>"
		if asks && err == nil {
			if q := snap.Interrupts[0]; q.Key != "answer" || q.Value != "Your name?" {
				t.Errorf("it asks %v", q)
			}
			want = "Hello Kim<nil>"
			snap, err = th.Invoke(t.Context(), th.Answer("Kim"))
		}
		if err != nil || snap.State.Made != want {
			t.Errorf("it made %s, %v", snap.State.Made, err)
		}
	}
}

func TestAnAgentThatIsNotThereIsAnError(t *testing.T) {
	_, err := calls(dial(t, "http://127.0.0.1:1"), hello).MustCompile().Invoke(t.Context(), toBonn)
	if failed := (*a2a.Error)(nil); !errors.As(err, &failed) {
		t.Errorf("the run ends with %v", err)
	}
	b := graph.New[ours]("ours")
	a2a.AddAgent(b, "trip", a2a.Agent[ours]{})
	_, err = b.AddEdge(graph.Start, "trip").Compile()
	for _, want := range []string{"a Client", "a Message", "an Output"} {
		if !strings.Contains(fmt.Sprint(err), "an agent needs "+want) {
			t.Errorf("compiled without %s: %v", want, err)
		}
	}
}
