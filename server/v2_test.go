package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// told is an event of the protocol's second version.
type told struct {
	Type   string `json:"type"`
	ID     string `json:"event_id"`
	Seq    int64  `json:"seq"`
	Method string `json:"method"`
	Params struct {
		Namespace []string        `json:"namespace"`
		Timestamp int64           `json:"timestamp"`
		Node      string          `json:"node"`
		Data      json.RawMessage `json:"data"`
	} `json:"params"`
}

func (e told) data() object {
	o := object{}
	_ = json.Unmarshal(e.Params.Data, &o)
	return o
}

// wantID is the ID that the event has to have: clients read from those of where runs
// begin and end which run it is.
func (e told) wantID() string {
	if run, ok := e.data()["run_id"]; ok && e.Method == "lifecycle" && len(e.Params.Namespace) == 0 {
		return fmt.Sprintf("synth:%s:%d", run, e.Seq)
	}
	return strconv.FormatInt(e.Seq, 10)
}

// String is a line that says what happened.
func (e told) String() string {
	line := e.Method
	if ns := e.Params.Namespace; len(ns) > 0 {
		for i, s := range ns {
			ns[i], _, _ = strings.Cut(s, ":")
		}
		line += "|" + strings.Join(ns, "|")
	}
	if e.Params.Node != "" {
		line += " " + e.Params.Node
	}
	if event, ok := e.data()["event"]; ok {
		line += " " + fmt.Sprint(event)
	}
	return line
}

// ending reports whether an event is the end of a run.
func (e told) ending() bool {
	return e.Method == "lifecycle" && len(e.Params.Namespace) == 0 && e.data()["event"] != "running"
}

// events is a stream of them.
type events struct {
	t    testing.TB
	next chan told
	stop func()
}

// follow opens a stream of a thread's events.
func (c client) follow(thread string, filter object) *events {
	c.t.Helper()
	body, err := json.Marshal(filter)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+"/threads/"+thread+"/stream/events", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	s := &events{c.t, make(chan told, 10000), cancel}
	done := make(chan struct{})
	s.stop = func() {
		cancel()
		<-done
	}
	go func() {
		defer close(done)
		defer close(s.next)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e told
				if json.Unmarshal([]byte(data), &e) == nil {
					s.next <- e
				}
			}
		}
	}()
	c.t.Cleanup(s.stop)
	return s
}

const patience = 30 * time.Second

// until returns the events up to one that is the last.
func (s *events) until(last func(told) bool) []told {
	s.t.Helper()
	var out []told
	for {
		select {
		case e, ok := <-s.next:
			if !ok {
				s.t.Fatalf("the stream ended after %v", out)
			}
			out = append(out, e)
			if last(e) {
				return out
			}
		case <-time.After(patience):
			s.t.Fatalf("nothing more came after %v", out)
		}
	}
}

func lines(list []told) string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = e.String()
	}
	return strings.Join(out, "\n")
}

// answer is what a command gets.
type answer struct {
	Type    string `json:"type"`
	ID      any    `json:"id"`
	Result  object `json:"result"`
	Error   string `json:"error"`
	Message string `json:"message"`
	Meta    struct {
		ThreadID string `json:"thread_id"`
		Through  int64  `json:"applied_through_seq"`
	} `json:"meta"`
}

func (c client) command(thread, method string, params object) answer {
	c.t.Helper()
	return call[answer](c, "POST", "/threads/"+thread+"/commands", object{"id": 7, "method": method, "params": params})
}

// must is a command that has to succeed.
func (c client) must(thread, method string, params object) object {
	c.t.Helper()
	a := c.command(thread, method, params)
	if a.Type != "success" || a.ID != 7.0 || a.Meta.ThreadID != thread {
		c.t.Fatalf("%s: %+v", method, a)
	}
	return a.Result
}

func newThread() string { return uuid.Must(uuid.NewV7()).String() }

var everything = object{"channels": []string{"values", "updates", "messages", "tools", "custom", "checkpoints", "tasks", "lifecycle", "input"}}

func TestAThreadIsFollowedFromBeforeItExists(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := newThread()
	s := c.follow(thread, everything)
	run := c.must(thread, "run.start", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
	first := s.until(told.ending)
	if got, want := lines(first), `lifecycle running
checkpoints
values
tasks plan
tasks plan
messages plan message-start
messages plan content-block-start
messages plan content-block-finish
messages plan message-finish
updates plan
checkpoints
values
tasks book
input.requested
lifecycle interrupted`; got != want {
		t.Errorf("events:\n%s\nwant\n%s", got, want)
	}
	asked := first[len(first)-2]
	if asked.Method != "input.requested" || fmt.Sprint(asked.data()["payload"]) != "map[question:Book Bonn?]" {
		t.Errorf("before the end comes %v %s", asked, asked.Params.Data)
	}
	if got := call[object](c, "GET", "/threads/"+thread+"/runs/"+run["run_id"].(string), nil)["status"]; got != "interrupted" {
		t.Errorf("when clients know that it waits, the run is %v", got)
	}
	answered := c.must(thread, "input.respond", object{"namespace": []string{}, "interrupt_id": asked.data()["interrupt_id"], "response": true})
	if len(answered) != 0 {
		t.Errorf("answering says %v", answered)
	}
	second := s.until(told.ending)
	if got, want := lines(second), `lifecycle running
input.answered
tasks book
tasks book
updates book
checkpoints
values
lifecycle completed`; got != want {
		t.Errorf("events after the answer:\n%s\nwant\n%s", got, want)
	}
	all := append(first, second...)
	for i, e := range all {
		if e.Type != "event" || e.ID != e.wantID() || e.Params.Timestamp == 0 || i > 0 && e.Seq <= all[i-1].Seq {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	// Who comes later sees all, or what is after a number.
	if got := c.follow(thread, everything).until(func(e told) bool { return e.Seq == all[len(all)-1].Seq }); lines(got) != lines(all) {
		t.Errorf("replayed:\n%s\nwant\n%s", lines(got), lines(all))
	}
	later := object{"channels": everything["channels"], "since": all[4].Seq}
	if got := c.follow(thread, later).until(func(e told) bool { return e.Seq == all[len(all)-1].Seq }); lines(got) != lines(all[5:]) {
		t.Errorf("replayed since a number:\n%s\nwant\n%s", lines(got), lines(all[5:]))
	}
	narrow := c.follow(thread, object{"channels": []string{"lifecycle", "input"}})
	if got := lines(narrow.until(func(e told) bool { return e.Seq == all[len(all)-1].Seq })); got != "lifecycle running\ninput.requested\nlifecycle interrupted\nlifecycle running\ninput.answered\nlifecycle completed" {
		t.Errorf("of two channels:\n%s", got)
	}
}

// Clients that are asked stop reading all that they read: who subscribes right after the
// start of a run that asks at once sees what was before.
func TestAQuestionIsNotToldBeforeSubscriptionsHaveSettled(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	thread := newThread()
	began := time.Now()
	watcher := c.follow(thread, object{"channels": []string{"lifecycle", "input"}})
	c.must(thread, "run.start", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
	watcher.until(func(e told) bool { return e.Method == "input.requested" })
	if after := time.Since(began); after < 100*time.Millisecond {
		t.Errorf("it is told after %v", after)
	}
}

func TestMessagesAndToolsAreToldPieceByPiece(t *testing.T) {
	c := start(t, server.Graph(answering(t)))
	thread := newThread()
	s := c.follow(thread, object{"channels": []string{"messages", "tools", "lifecycle"}})
	run := c.must(thread, "run.start", object{"assistant_id": "agent", "input": object{"messages": []object{{"type": "human", "content": "What is 6 times 7?"}}}})["run_id"]
	all := s.until(told.ending)
	text, calls, ended := map[string]string{}, "", []string{}
	for _, e := range all {
		d := e.data()
		id := fmt.Sprint(d["message_id"])
		if e.Method == "messages" && (d["run_id"] != run || d["event"] == "message-start" && d["id"] != d["message_id"]) {
			t.Errorf("an event of a message of run %v: %v", run, d)
		}
		switch d["event"] {
		case "content-block-delta":
			delta := d["delta"].(object)
			if delta["type"] == "text-delta" {
				text[id] += delta["text"].(string)
			}
		case "content-block-finish":
			content := d["content"].(object)
			if content["type"] == "tool_call" {
				calls += fmt.Sprint(content["name"], content["args"])
			} else if content["text"] != text[id] {
				t.Errorf("the text is %q, and its pieces are %q", content["text"], text[id])
			}
		case "message-finish":
			ended = append(ended, id)
		case "tool-started":
			if d["tool_name"] != "multiply" || fmt.Sprint(d["input"]) != "map[a:6 b:7]" {
				t.Errorf("a tool starts: %v", d)
			}
		case "tool-finished":
			if m := d["output"].(object); m["type"] != "tool" || m["content"] != "42" || m["tool_call_id"] != d["tool_call_id"] || m["status"] != "success" {
				t.Errorf("a tool finishes: %v", d)
			}
		}
	}
	if calls != "multiplymap[a:6 b:7]" || len(ended) != 2 || text[ended[1]] != "The answer is 42." {
		t.Errorf("calls %q, messages %v, text %v in\n%s", calls, ended, text, lines(all))
	}
}

// nested is a graph with a graph that asks in it.
func nested(t testing.TB) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip]("nested")
	graph.AddSubgraph(b, "office", booking(t), graph.Mapping[trip, trip]{
		In:  func(p, c *trip) { c.City = p.City },
		Out: func(c, p *trip) { p.City, p.Booked = c.City, c.Booked },
	})
	b.AddEdge(graph.Start, "office")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSubgraphsHaveNamespaces(t *testing.T) {
	c := start(t, server.Graph(nested(t)))
	thread := newThread()
	s := c.follow(thread, object{"channels": []string{"lifecycle", "updates", "input", "values"}})
	c.must(thread, "run.start", object{"assistant_id": "nested", "input": object{"city": "Bonn"}})
	first := s.until(told.ending)
	var ns []string
	for _, e := range first {
		if e.Method == "input.requested" {
			ns = e.Params.Namespace
		}
	}
	if len(ns) != 1 || !strings.HasPrefix(ns[0], "office:") {
		t.Fatalf("the question is at %v", ns)
	}
	tree := c.must(thread, "agent.getTree", nil)["tree"].(object)
	child := tree["children"].([]any)[0].(object)
	if tree["graph_name"] != "nested" || tree["status"] != "interrupted" || child["graph_name"] != "booking" || fmt.Sprint(child["namespace"]) != fmt.Sprint(ns) {
		t.Errorf("the tree is %v", tree)
	}
	state := c.must(thread, "state.get", object{"namespace": ns, "keys": []string{"city"}})
	if fmt.Sprint(state["values"]) != "map[city:Bonn]" || state["checkpoint"].(object)["id"] == "" {
		t.Errorf("the subgraph's state is %v", state)
	}
	if got := c.must(thread, "state.get", object{"namespace": []string{"office"}})["values"].(object)["city"]; got != "Bonn" {
		t.Errorf("by the node's name the city is %v", got)
	}
	if got := c.command(thread, "state.get", object{"namespace": []string{"nowhere"}}).Error; got != "no_such_namespace" {
		t.Errorf("nowhere: %v", got)
	}
	asked := first[slices.IndexFunc(first, func(e told) bool { return e.Method == "input.requested" })].data()["interrupt_id"]
	c.must(thread, "input.respond", object{"responses": []object{{"namespace": ns, "interrupt_id": asked, "response": true}}})
	second := s.until(told.ending)
	for _, e := range second {
		if len(e.Params.Namespace) > 0 && e.Params.Namespace[0] != ns[0] {
			t.Errorf("the subgraph was at %v and is at %v", ns, e.Params.Namespace)
		}
	}
	if got := lines(second); !strings.Contains(got, "lifecycle|office started\n") || !strings.Contains(got, "updates|office book\n") || !strings.Contains(got, "lifecycle|office completed\n") {
		t.Errorf("events after the answer:\n%s", got)
	}
	last := second[len(second)-1].Seq
	for _, f := range []struct {
		filter  object
		deepest int
		lowest  int
	}{
		{object{"namespaces": [][]string{{}}, "depth": 0}, 0, 0},
		{object{"namespaces": [][]string{{"office"}}}, 1, 1},
		{object{"namespaces": [][]string{{}}, "depth": 1}, 1, 0},
	} {
		f.filter["channels"] = []string{"updates", "values"}
		f.filter["since"] = first[0].Seq - 1
		got := []told{}
		stream := c.follow(thread, f.filter)
		c.must(thread, "state.get", nil) // by then the replay is under way
		deadline := time.After(patience)
		for want := count(append(first, second...), f.lowest, f.deepest); len(got) < want; {
			select {
			case e := <-stream.next:
				got = append(got, e)
			case <-deadline:
				t.Fatalf("%v: %d of %d events came", f.filter, len(got), want)
			}
		}
		for _, e := range got {
			if n := len(e.Params.Namespace); n < f.lowest || n > f.deepest || e.Seq > last {
				t.Errorf("%v lets %v through", f.filter, e)
			}
		}
	}
}

// count counts the updates and values of some depths.
func count(list []told, lowest, deepest int) int {
	n := 0
	for _, e := range list {
		if depth := len(e.Params.Namespace); (e.Method == "updates" || e.Method == "values") && depth >= lowest && depth <= deepest {
			n++
		}
	}
	return n
}

// survey asks two things at once.
func survey(t testing.TB) *graph.Graph[trip] {
	t.Helper()
	b := graph.New[trip]("survey")
	for _, name := range []string{"who", "where"} {
		b.AddNode(name, func(ctx context.Context, s *trip) error {
			said, err := graph.Interrupt[string](ctx, name, name+"?")
			if err != nil {
				return err
			}
			s.Messages.Add(chat.AI(name + ": " + said))
			return nil
		})
		b.AddEdge(graph.Start, name)
	}
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSeveralQuestionsAreAnsweredAtOnce(t *testing.T) {
	c := start(t, server.Graph(survey(t)))
	thread := newThread()
	s := c.follow(thread, object{"channels": []string{"lifecycle", "input"}})
	c.must(thread, "run.start", object{"assistant_id": "survey", "input": object{}})
	var responses []object
	for _, e := range s.until(told.ending) {
		if e.Method == "input.requested" {
			responses = append(responses, object{"namespace": []string{}, "interrupt_id": e.data()["interrupt_id"], "response": "re " + e.data()["payload"].(string)})
		}
	}
	if a := c.command(thread, "input.respond", object{"responses": append(slices.Clone(responses), object{"interrupt_id": "unknown", "response": 1})}); a.Error != "no_such_interrupt" {
		t.Errorf("an answer to what wasn't asked: %+v", a)
	}
	c.must(thread, "input.respond", object{"responses": responses})
	if got := lines(s.until(told.ending)); got != "lifecycle running\ninput.answered\nlifecycle completed" {
		t.Errorf("events:\n%s", got)
	}
	messages := c.must(thread, "state.get", object{"namespace": []string{}})["values"].(object)["messages"].([]any)
	if len(messages) != 2 {
		t.Errorf("the answers led to %v", messages)
	}
}

func TestInputAnswersAThreadThatAsks(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := newThread()
	s := c.follow(thread, object{"channels": []string{"lifecycle", "input"}})
	c.must(thread, "run.start", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
	s.until(told.ending)
	c.must(thread, "run.start", object{"assistant_id": "booking", "input": true})
	if got := lines(s.until(told.ending)); got != "lifecycle running\ninput.answered\nlifecycle completed" {
		t.Errorf("events:\n%s", got)
	}
	if got := c.must(thread, "state.get", nil)["values"].(object)["booked"]; got != true {
		t.Errorf("booked is %v", got)
	}
	// The command of a remote graph does the same.
	c.must(thread, "run.start", object{"assistant_id": "booking", "input": object{"city": "Rom"}})
	s.until(told.ending)
	c.must(thread, "run.start", object{"assistant_id": "booking", "input": object{"lg_name": "Command", "resume": false, "goto": nil, "update": object{"city": "Pisa"}}})
	s.until(told.ending)
	if got := c.must(thread, "state.get", nil)["values"].(object); got["booked"] != false || got["city"] != "Pisa" {
		t.Errorf("after the command: %v", got)
	}
}

func TestCheckpointsAreListedAndForked(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := newThread()
	s := c.follow(thread, object{"channels": []string{"lifecycle"}})
	c.must(thread, "run.start", object{"assistant_id": "booking", "input": object{"city": "Bonn"}, "metadata": object{"by": "kim"}, "multitaskStrategy": "enqueue"})
	s.until(told.ending)
	list := c.must(thread, "state.listCheckpoints", object{"limit": 5})["checkpoints"].([]any)
	if len(list) != 3 || list[0].(object)["step"] != 1.0 || list[0].(object)["metadata"].(object)["by"] != "kim" || list[0].(object)["timestamp"] == "" {
		t.Fatalf("checkpoints: %v", list)
	}
	oldest := list[1].(object)["id"].(string)
	if got := c.must(thread, "state.listCheckpoints", object{"before": list[0].(object)["id"]})["checkpoints"].([]any); len(got) != 2 || got[0].(object)["id"] != oldest {
		t.Errorf("before the newest: %v", got)
	}
	forked := c.must(thread, "state.fork", object{"checkpoint_id": oldest, "input": object{"city": "Rom"}})
	if forked["thread_id"] != thread || forked["run_id"] == "" {
		t.Errorf("forked: %v", forked)
	}
	s.until(told.ending)
	if got := c.must(thread, "state.get", nil)["values"].(object)["city"]; got != "Rom" {
		t.Errorf("the city is %v", got)
	}
	c.must(thread, "run.start", object{"assistant_id": "booking", "input": object{"city": "Ulm"}, "config": object{"configurable": object{"checkpoint_id": oldest, "thread_id": thread}}})
	if got := s.until(told.ending); got[len(got)-1].data()["event"] != "interrupted" {
		t.Errorf("a start from a checkpoint, which answers nothing: %s", lines(got))
	}
	if got := c.must(thread, "state.get", nil)["values"].(object)["city"]; got != "Ulm" {
		t.Errorf("the city is %v", got)
	}
	if a := c.command(thread, "state.fork", object{"checkpoint_id": newThread()}); a.Error != "no_such_checkpoint" {
		t.Errorf("a fork from nowhere: %+v", a)
	}
}

func TestWhatIsWrongWithACommandIsAnAnswer(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := newThread()
	for _, x := range []struct {
		method string
		params object
		code   string
	}{
		{"run.dance", nil, "unknown_command"},
		{"input.inject", object{"namespace": []string{}, "message": object{"role": "user", "content": "x"}}, "unknown_command"},
		{"subscription.subscribe", object{"channels": []string{"values"}}, "not_supported"},
		{"run.start", object{"input": object{}}, "invalid_argument"},
		{"run.start", object{"assistant_id": "nobody", "input": object{}}, "invalid_argument"},
		{"run.start", object{"assistant_id": "booking", "input": object{"city": 5}}, "invalid_argument"},
		{"run.start", object{"assistant_id": "booking", "input": object{}, "multitask_strategy": "panic"}, "invalid_argument"},
		{"input.respond", object{}, "invalid_argument"},
		{"input.respond", object{"interrupt_id": "x", "response": 1}, "no_such_interrupt"},
		{"state.get", object{"namespace": "x"}, "invalid_argument"},
	} {
		if a := c.command(thread, x.method, x.params); a.Type != "error" || a.Error != x.code || a.Message == "" || a.ID != 7.0 {
			t.Errorf("%s %v: %+v, want %s", x.method, x.params, a, x.code)
		}
	}
	if a := call[answer](c, "POST", "/threads/"+thread+"/commands", object{"method": "state.get"}); a.Error != "invalid_argument" || a.ID != nil {
		t.Errorf("without an id: %+v", a)
	}
	if status, _, text := c.do("POST", "/threads/"+thread+"/stream/events", object{}); status != http.StatusUnprocessableEntity {
		t.Errorf("without channels: %d %s", status, text)
	}
}

func TestAFailureIsTold(t *testing.T) {
	c := start(t, server.Graph(boom(t)), server.Graph(slow(t)))
	thread := newThread()
	s := c.follow(thread, object{"channels": []string{"lifecycle", "tasks"}})
	c.must(thread, "run.start", object{"assistant_id": "boom", "input": object{}})
	all := s.until(told.ending)
	if d := all[len(all)-1].data(); d["event"] != "failed" || d["error"] != "I am a teapot" || d["graph_name"] != "boom" {
		t.Errorf("the end is %v", d)
	}
	// What is cancelled ends too, as do runs that are rolled back.
	for _, how := range []string{"interrupt", "rollback"} {
		thread := newThread()
		s := c.follow(thread, object{"channels": []string{"lifecycle", "custom"}})
		run := c.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 1000}})["run_id"].(string)
		s.until(func(e told) bool { return e.Method == "custom" })
		if status, _, text := c.do("POST", "/threads/"+thread+"/runs/"+run+"/cancel?action="+how, nil); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, text)
		}
		all := s.until(told.ending)
		if d := all[len(all)-1].data(); d["event"] != "interrupted" {
			t.Errorf("%s: the end is %v", how, d)
		}
	}
}

func TestRunsThatNoCommandStartedAreToldIfSomebodyFollows(t *testing.T) {
	c := start(t, server.Graph(slow(t)))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	s := c.follow(thread, object{"channels": []string{"lifecycle", "custom"}})
	call[object](c, "POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "slow", "input": object{"todo": 2}})
	if got := lines(s.until(told.ending)); got != "lifecycle running\ncustom tick\ncustom tick\nlifecycle completed" {
		t.Errorf("events:\n%s", got)
	}
	// Who comes in the middle sees what it comes to.
	late := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	run := call[object](c, "POST", "/threads/"+late+"/runs", object{"assistant_id": "slow", "input": object{"todo": 1000}})["run_id"].(string)
	for call[object](c, "GET", "/threads/"+late+"/runs/"+run, nil)["status"] != "running" {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // it has begun
	s = c.follow(late, everything)
	c.do("POST", "/threads/"+late+"/runs/"+run+"/cancel?wait=1", nil)
	all := s.until(told.ending)
	if got := lines(all); got != "values\nlifecycle interrupted" {
		t.Errorf("events:\n%s", got)
	}
}

// page is a client over a WebSocket.
type page struct {
	t    testing.TB
	conn *websocket.Conn
	last int
}

func (c client) dial(thread string) *page {
	c.t.Helper()
	conn, resp, err := websocket.Dial(context.Background(), strings.Replace(c.url, "http", "ws", 1)+"/threads/"+thread+"/stream/events", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://localhost:3000"}}})
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	conn.SetReadLimit(64 << 20)
	c.t.Cleanup(func() { conn.CloseNow() })
	return &page{t: c.t, conn: conn}
}

// read returns the next message: an event or an answer.
func (p *page) read() (told, answer) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, data, err := p.conn.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	var e told
	var a answer
	if err := json.Unmarshal(data, &e); err == nil && e.Type == "event" {
		return e, a
	}
	if err := json.Unmarshal(data, &a); err != nil {
		p.t.Fatalf("%v: %s", err, data)
	}
	return told{}, a
}

func (p *page) write(text string) {
	p.t.Helper()
	if err := p.conn.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// command returns the answer, and the events that came before it.
func (p *page) command(method string, params object) (a answer, before []told) {
	p.t.Helper()
	p.last++
	data, err := json.Marshal(object{"id": p.last, "method": method, "params": params})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(string(data))
	for {
		e, a := p.read()
		if e.Type == "" {
			if a.ID != float64(p.last) {
				p.t.Fatalf("%s got the answer %+v", method, a)
			}
			return a, before
		}
		before = append(before, e)
	}
}

func (p *page) until(last func(told) bool) []told {
	p.t.Helper()
	var out []told
	for {
		e, a := p.read()
		if e.Type == "" {
			p.t.Fatalf("an answer came: %+v", a)
		}
		out = append(out, e)
		if last(e) {
			return out
		}
	}
}

func TestAWebSocketHasCommandsAndSubscriptions(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := newThread()
	p := c.dial(thread)
	a, _ := p.command("subscription.subscribe", object{"channels": []string{"lifecycle", "input"}})
	if a.Type != "success" || a.Result["replayed_events"] != 0.0 {
		t.Fatalf("subscribing: %+v", a)
	}
	if a, _ := p.command("subscription.subscribe", object{"channels": []string{"lifecycle", "values"}}); a.Type != "success" {
		t.Fatalf("subscribing: %+v", a)
	}
	a, all := p.command("run.start", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
	if a.Type != "success" || a.Result["run_id"] == "" {
		t.Fatalf("starting: %+v", a)
	}
	if len(all) == 0 || !all[len(all)-1].ending() {
		all = append(all, p.until(told.ending)...)
	}
	if got := lines(all); got != "lifecycle running\nvalues\nvalues\ninput.requested\nlifecycle interrupted" {
		t.Errorf("events, each once:\n%s", got)
	}
	// A later subscription gets its answer first, and then what happened before.
	late, before := p.command("subscription.subscribe", object{"channels": []string{"checkpoints", "tasks"}})
	if len(before) != 0 || late.Result["replayed_events"] != 5.0 {
		t.Errorf("subscribing late: %+v after %v", late, before)
	}
	for range 5 {
		if e, a := p.read(); e.Method != "checkpoints" && e.Method != "tasks" {
			t.Errorf("replayed: %v %+v", e, a)
		}
	}
	if a, _ := p.command("subscription.unsubscribe", object{"subscription_id": late.Result["subscription_id"]}); a.Type != "success" {
		t.Errorf("unsubscribing: %+v", a)
	}
	if a, _ := p.command("subscription.unsubscribe", object{"subscription_id": late.Result["subscription_id"]}); a.Error != "no_such_subscription" {
		t.Errorf("unsubscribing again: %+v", a)
	}
	if a, _ := p.command("subscription.reconnect", object{"run_id": "x"}); a.Error != "unknown_command" {
		t.Errorf("an unknown command: %+v", a)
	}
	if a, _ := p.command("subscription.subscribe", object{}); a.Error != "invalid_argument" {
		t.Errorf("a subscription to nothing: %+v", a)
	}
	p.write("{")
	if _, a := p.read(); a.Error != "invalid_argument" || a.ID != nil {
		t.Errorf("what is no JSON: %+v", a)
	}
	asked := all[slices.IndexFunc(all, func(e told) bool { return e.Method == "input.requested" })].data()["interrupt_id"]
	a, all = p.command("input.respond", object{"namespace": []string{}, "interrupt_id": asked, "response": true})
	if a.Type != "success" {
		t.Fatalf("answering: %+v", a)
	}
	if len(all) == 0 || !all[len(all)-1].ending() {
		all = append(all, p.until(told.ending)...)
	}
	if got := lines(all); got != "lifecycle running\ninput.answered\nvalues\nlifecycle completed" {
		t.Errorf("events after the answer:\n%s", got)
	}
}

func TestAThreadsRunsAreJoined(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	if status, _, _ := c.do("GET", "/threads/"+newThread()+"/stream", nil); status != http.StatusNotFound {
		t.Errorf("joining no thread: %d", status)
	}
	if status, _, _ := c.do("GET", "/threads/"+thread+"/stream?stream_mode=all", nil); status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown mode: %d", status)
	}
	join := func(modes, last string) (next func() (event, id string, data object), stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, "GET", c.url+"/threads/"+thread+"/stream?stream_mode="+modes, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := resp.Header.Get("Location"), "/threads/"+thread+"/stream?stream_mode="+modes; got != want {
			t.Errorf("Location is %q, want %q", got, want)
		}
		stop = func() {
			cancel()
			resp.Body.Close()
		}
		t.Cleanup(stop)
		in := bufio.NewScanner(resp.Body)
		return func() (event, id string, data object) {
			for in.Scan() && in.Text() != "" {
				name, value, _ := strings.Cut(in.Text(), ": ")
				switch name {
				case "event":
					event = value
				case "id":
					id = value
				case "data":
					_ = json.Unmarshal([]byte(value), &data)
				}
			}
			return event, id, data
		}, stop
	}
	runs, _ := join("run_modes", "")
	marks, leave := join("lifecycle", "")
	edits, _ := join("state_update", "")
	go c.do("POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "booking", "input": object{"city": "Bonn"}, "stream_mode": "updates"})
	var names []string
	var run any
	for len(names) == 0 || names[len(names)-1] != "metadata run_done" {
		event, _, data := runs()
		if data["status"] != nil {
			event += " " + data["status"].(string)
		} else if event == "metadata" {
			run = data["run_id"]
		}
		names = append(names, event)
	}
	if got := strings.Join(names, ", "); got != "metadata, updates, updates, metadata run_done" {
		t.Errorf("events: %s", got)
	}
	event, first, data := marks()
	if event != "metadata" || data["run_id"] != run || data["attempt"] != 1.0 {
		t.Errorf("the beginning is %s %v", event, data)
	}
	event, _, data = marks()
	if event != "metadata" || data["run_id"] != run || data["status"] != "run_done" {
		t.Errorf("the end is %s %v", event, data)
	}
	leave()
	again, _ := join("lifecycle", first)
	if _, _, data = again(); data["status"] != "run_done" {
		t.Errorf("after the beginning comes %v", data)
	}
	call[object](c, "POST", "/threads/"+thread+"/state", object{"values": object{"city": "Rom"}})
	event, _, data = edits()
	if event != "state_update" || data["state"].(object)["values"].(object)["city"] != "Rom" || data["thread_id"] != thread {
		t.Errorf("an edit is %s %v", event, data)
	}
}

// begun returns a server of its own, for tests that end it.
func begun(t *testing.T, opts ...server.Option) (*server.Server, *httptest.Server, client) {
	t.Helper()
	s, err := server.New(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	return s, h, client{t, h.URL}
}

func TestNothingStaysWhenClientsLeave(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	s, h, c := begun(t, server.Graph(slow(t)))
	thread := newThread()
	streams := []*events{c.follow(thread, everything), c.follow(newThread(), everything)}
	pages := []*page{c.dial(thread), c.dial(newThread())}
	for _, p := range pages {
		p.command("subscription.subscribe", everything)
	}
	c.must(thread, "run.start", object{"assistant_id": "slow", "input": object{"todo": 3}})
	streams[0].until(told.ending)
	pages[0].until(told.ending)
	for _, s := range streams {
		s.stop()
	}
	for _, p := range pages[:1] {
		p.conn.CloseNow()
	}
	pages[1].conn.Close(websocket.StatusNormalClosure, "")
	h.CloseClientConnections()
	h.Close()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, leaks)
}

func TestStreamsOfThreadsEndWithTheServer(t *testing.T) {
	s, h, c := begun(t, server.Graph(slow(t)))
	thread := newThread()
	stream, p := c.follow(thread, everything), c.dial(thread)
	p.command("subscription.subscribe", everything)
	s.Drain(t.Context())
	select {
	case e, ok := <-stream.next:
		if ok {
			t.Errorf("an event: %v", e)
		}
	case <-time.After(patience):
		t.Error("the stream goes on")
	}
	if _, _, err := p.conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ended with %v", err)
	}
	if status, _, _ := c.do("POST", "/threads/"+thread+"/stream/events", everything); status != http.StatusServiceUnavailable {
		t.Errorf("a stream after the end: %d", status)
	}
	h.Close()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestARemovedThreadLeavesNoEvents(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	thread := newThread()
	s := c.follow(thread, everything)
	c.must(thread, "run.start", object{"assistant_id": "booking", "input": object{"city": "Bonn"}})
	s.until(told.ending)
	if status, _, text := c.do("DELETE", "/threads/"+thread, nil); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, text)
	}
	p := c.dial(thread)
	if a, _ := p.command("subscription.subscribe", everything); a.Result["replayed_events"] != 0.0 {
		t.Errorf("replayed: %+v", a)
	}
}

// Tasks of one node that run at once have a namespace each.
func TestParallelSubgraphsHaveNamespacesOfTheirOwn(t *testing.T) {
	type part struct {
		City string `json:"city"`
	}
	type whole struct {
		Cities graph.List[string] `json:"cities"`
	}
	inner := graph.New[part]("visit")
	inner.AddNode("go", func(_ context.Context, s *part) error { s.City += "!"; return nil })
	inner.AddEdge(graph.Start, "go")
	visit, err := inner.Compile()
	if err != nil {
		t.Fatal(err)
	}
	b := graph.New[whole]("tour")
	each := graph.AddTask(b, "each", func(ctx context.Context, s *whole, city string) error {
		out, err := graph.Call(ctx, "", visit, func(p *part) error {
			p.City = city
			return nil
		})
		if err == nil {
			s.Cities.Add(out.City)
		}
		return err
	}, graph.Contains(visit))
	b.AddCommandNode("split", func(context.Context, *whole) (graph.Command, error) {
		return graph.Dispatch(each.Send("Ulm"), each.Send("Bonn"), each.Send("Kiel")), nil
	})
	b.AddEdge(graph.Start, "split")
	g, err := b.Compile()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, server.Graph(g))
	thread := newThread()
	s := c.follow(thread, object{"channels": []string{"lifecycle", "updates", "values"}})
	c.must(thread, "run.start", object{"assistant_id": "tour", "input": object{}})
	started, ended := map[string]int{}, map[string]int{}
	for _, e := range s.until(told.ending) {
		if e.Method == "lifecycle" && len(e.Params.Namespace) == 1 {
			switch e.data()["event"] {
			case "started":
				started[e.Params.Namespace[0]]++
			case "completed":
				ended[e.Params.Namespace[0]]++
			}
		}
	}
	if len(started) != 3 || fmt.Sprint(started) != fmt.Sprint(ended) {
		t.Errorf("started %v, ended %v", started, ended)
	}
	for ns, n := range started {
		if n != 1 || !strings.HasPrefix(ns, "each:") {
			t.Errorf("%s began %d times", ns, n)
		}
	}
}

// Who comes while a run works that nobody followed is told its end, also of one that stops
// in the middle of a message.
func TestWhoFollowsARunLateIsToldItsEndAlthoughAMessageBreaksOff(t *testing.T) {
	said := make(chan struct{})
	b := graph.New[trip]("talk")
	b.AddNode("say", func(ctx context.Context, _ *trip) error {
		if err := graph.EmitMessage(ctx, chat.ChunkOf(chat.Message{ID: "m", Role: chat.RoleAssistant, Parts: []chat.Part{chat.Text{Text: "well"}}})); err != nil {
			return err
		}
		close(said)
		<-ctx.Done()
		return ctx.Err()
	})
	b.AddEdge(graph.Start, "say")
	c := start(t, server.Graph(b.MustCompile()), quiet())
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	run := call[object](c, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "talk", "input": object{}, "stream_mode": []string{"messages-tuple"}})
	at := fmt.Sprintf("/threads/%s/runs/%v", thread, run["run_id"])
	streamed, stop := c.sse(at+"/stream", "Last-Event-ID", "-1")
	defer stop()
	for line := range streamed {
		if strings.HasPrefix(line, "messages ") {
			break
		}
	}
	<-said
	s := c.follow(thread, everything)
	if status, _, text := c.do("POST", at+"/cancel?wait=true", nil); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	list := s.until(told.ending)
	if got := lines(list); !strings.Contains(got, "interrupted") || strings.Contains(got, "messages") {
		t.Errorf("events:\n%s", got)
	}
}

// A message that only calls tools is told as such, and not as an empty text.
func TestMessagesThatANodeReturnsAreToldIfTheySaySomething(t *testing.T) {
	b := graph.New[agent.State]("hands")
	b.AddNode("hand", func(_ context.Context, s *agent.State) error {
		c := chat.ToolCall{ID: "c-1", Name: "search", Args: `{"query":"x"}`}
		s.Messages.Add(chat.AI("", c), chat.ResultText(c, "found"), chat.AI("Let me see", c), chat.AI("Found it."))
		return nil
	})
	c := start(t, server.Graph(b.AddEdge(graph.Start, "hand").MustCompile()))
	thread := newThread()
	s := c.follow(thread, everything)
	c.must(thread, "run.start", object{"assistant_id": "hands", "input": object{}})
	var said []string
	for _, e := range s.until(told.ending) {
		if e.Method == "messages" && strings.Contains(string(e.Params.Data), `"content-block-finish"`) {
			var of struct{ Content object }
			if err := json.Unmarshal(e.Params.Data, &of); err != nil {
				t.Fatal(err)
			}
			said = append(said, fmt.Sprint(of.Content["type"], " ", of.Content["text"], of.Content["name"]))
		}
		if e.Method == "messages" && strings.Contains(string(e.Params.Data), `"message-start"`) {
			said = append(said, "message")
		}
	}
	if got, want := strings.Join(said, ", "), "message, text Let me see<nil>, tool_call <nil>search, message, text Found it.<nil>"; got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}
