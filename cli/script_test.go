package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/dialogue/action"
	flows "github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/graph"
)

// tests fail if they leave goroutines behind.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	census := goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start") // from the init of an import
	if err := goleak.Find(census); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		// flow is a program with graphs of its own; lone has one graph.
		"flow": func() {
			cli.Main(
				cli.Graph(jokes(), cli.Describe("Writes jokes until one is liked."), cli.ExampleInput(`{"topic": "cats"}`)),
				cli.Graph(pair()), cli.Graph(fan()), cli.Graph(fragile()), cli.Graph(slow()), cli.Graph(endless(), cli.Named("loop")),
				cli.Graph(nap()), cli.Graph(order()), cli.Graph(talker()), cli.Graph(astray()), cli.Graph(greeter()),
				cli.OpenStore("mem", func(context.Context, string) (checkpoint.Store, error) { return checkpoint.NewMemory(), nil }),
				cli.Program("flow", "Runs the graphs of the tests."), cli.Version("1.2.3"), cli.Evaluation(cli.Evaluations{Judge: judge}),
			)
		},
		// newer has the graph jokes as another version of the program has it.
		"newer": func() { cli.Main(cli.Graph(newerJokes("jokes"))) },
		// renamed has it under another name.
		"renamed": func() { cli.Main(cli.Graph(pair()), cli.Graph(newerJokes("puns"))) },
		// bare has no graphs of its own.
		"bare": func() { cli.Main(cli.Program("bare", "Has no graphs.")) },
		// teller has the code of an assistant.
		"teller": func() {
			type whose struct {
				Whose string `json:"whose"`
			}
			cli.Main(cli.Program("teller", "Books."), cli.Dialogue(cli.Dialogues{Code: []action.Part{
				action.New("book", func(ctx context.Context, _ struct{}) (whose, error) { return whose{action.CallOf(ctx).User}, nil }, action.Effect(flows.Write)),
			}}))
		},
		"lone": func() { cli.Main(cli.Graph(fan()), cli.DefaultStore("file:threads")) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":     code,
			"jsonpath": jsonpath,
			"save":     save,
			"abandon":  abandon,
			"tear":     tear,
			"server":   startServer,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// code runs a command that must end with that exit code: code N COMMAND ...
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// lookup finds a member in JSON by its path: numbers are indexes, negative
// ones counted from the end; # is the length.
func lookup(ts *testscript.TestScript, file, path string) any {
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile(file)), &v); err != nil {
		ts.Fatalf("%s is not JSON: %v", file, err)
	}
	for _, name := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[name]; !ok {
				ts.Fatalf("%s has no %q in %v", file, name, x)
			}
		case []any:
			if name == "#" {
				v = float64(len(x))
				continue
			}
			i, err := strconv.Atoi(name)
			ts.Check(err)
			if i < 0 {
				i += len(x)
			}
			if i < 0 || i >= len(x) {
				ts.Fatalf("%s has no element %q of %d", file, name, len(x))
			}
			v = x[i]
		default:
			ts.Fatalf("nothing is below %q in %v", name, v)
		}
	}
	return v
}

// jsonpath compares a member of a file: jsonpath FILE PATH JSON
func jsonpath(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: jsonpath FILE PATH JSON")
	}
	got := lookup(ts, args[0], args[1])
	var want any
	ts.Check(json.Unmarshal([]byte(args[2]), &want))
	if reflect.DeepEqual(got, want) == neg {
		ts.Fatalf("%s is %v, want %v (negated: %v)", args[1], got, want, neg)
	}
}

// save puts a member of a file into an environment variable: save NAME FILE PATH
func save(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: save NAME FILE PATH")
	}
	ts.Setenv(args[0], fmt.Sprint(lookup(ts, args[1], args[2])))
}

type joke struct {
	Topic string             `json:"topic"`
	Jokes graph.List[string] `json:"jokes"`
	Liked bool               `json:"liked"`
}

func jokes() *graph.Graph[joke] {
	b := graph.New[joke]("jokes")
	b.AddNode("write", func(_ context.Context, s *joke) error {
		s.Jokes.Add(fmt.Sprintf("%s no. %d", s.Topic, s.Jokes.Len()+1))
		return nil
	})
	b.AddNode("review", func(ctx context.Context, s *joke) error {
		ok, err := graph.Interrupt[bool](ctx, "like", s.Jokes.Last())
		s.Liked = ok
		return err
	})
	b.AddEdge(graph.Start, "write").AddEdge("write", "review")
	b.AddConditionalEdges("review", func(_ context.Context, s *joke) (graph.Command, error) {
		if s.Liked {
			return graph.Goto(graph.End), nil
		}
		return graph.Goto("write"), nil
	}, "write", graph.End)
	return b.MustCompile()
}

type pairState struct {
	Price float64 `json:"price"`
	Note  string  `json:"note"`
}

// pair asks two questions at once.
func pair() *graph.Graph[pairState] {
	b := graph.New[pairState]("pair")
	b.AddNode("price", func(ctx context.Context, s *pairState) (err error) {
		offers, err := graph.Do(ctx, "offers", func(context.Context, string) ([]int, error) { return []int{90, 120}, nil }, "a chair")
		if err == nil {
			s.Price, err = graph.Interrupt[float64](ctx, "price", map[string]any{"item": "a chair", "offers": offers})
		}
		return err
	})
	b.AddNode("note", func(ctx context.Context, s *pairState) (err error) {
		s.Note, err = graph.Interrupt[string](ctx, "note", "What shall we write on it?")
		return err
	})
	b.AddEdge(graph.Start, "price").AddEdge(graph.Start, "note")
	return b.MustCompile()
}

type fanState struct {
	N     int              `json:"n"`
	Parts graph.Sum[int]   `json:"parts"`
	Seen  graph.List[int]  `json:"seen"`
	Text  graph.Value[any] `json:"text"`
}

// fan sends out N tasks.
func fan() *graph.Graph[fanState] {
	b := graph.New[fanState]("fan")
	part := graph.AddTask(b, "part", func(_ context.Context, s *fanState, i int) error {
		s.Parts.Add(i)
		s.Seen.Add(i)
		return nil
	})
	b.AddNode("join", func(context.Context, *fanState) error { return nil })
	b.AddConditionalEdges(graph.Start, func(_ context.Context, s *fanState) (graph.Command, error) {
		var sends []graph.Send
		for i := range s.N {
			sends = append(sends, part.Send(i))
		}
		return graph.Dispatch(sends...), nil
	}, "part", graph.End)
	b.AddEdge("part", "join")
	return b.MustCompile()
}

type fragileState struct {
	Runs graph.Sum[int] `json:"runs"`
	Done bool           `json:"done"`
}

// fragile fails until the file "mended" is there.
func fragile() *graph.Graph[fragileState] {
	b := graph.New[fragileState]("fragile")
	b.AddNode("before", func(_ context.Context, s *fragileState) error { s.Runs.Add(1); return nil })
	b.AddNode("break", func(_ context.Context, s *fragileState) error {
		if _, err := os.Stat("mended"); err != nil {
			return errors.New("it is broken: make a file named mended")
		}
		s.Done = true
		return nil
	})
	b.AddSequence("before", "break").SetEntryPoint("before")
	return b.MustCompile()
}

// astray is a graph whose router fails until the file "mended" is there.
func astray() *graph.Graph[fragileState] {
	b := graph.New[fragileState]("astray")
	b.AddNode("a", func(_ context.Context, s *fragileState) error { s.Runs.Add(1); return nil })
	b.AddNode("b", func(_ context.Context, s *fragileState) error { s.Done = true; return nil })
	b.AddConditionalEdges("a", func(context.Context, *fragileState) (graph.Command, error) {
		if _, err := os.Stat("mended"); err != nil {
			return graph.Command{}, errors.New("nobody knows the way")
		}
		return graph.Goto("b"), nil
	}, "b")
	b.SetEntryPoint("a")
	return b.MustCompile()
}

type slowState struct {
	First, Second bool
}

// slow makes a file "started" and waits until there is a file "go" or its
// context ends.
func slow() *graph.Graph[slowState] {
	b := graph.New[slowState]("slow")
	b.AddNode("first", func(ctx context.Context, s *slowState) error {
		if err := os.WriteFile("started", nil, 0o666); err != nil {
			return err
		}
		for {
			if _, err := os.Stat("go"); err == nil {
				s.First = true
				return nil
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	b.AddNode("second", func(_ context.Context, s *slowState) error { s.Second = true; return nil })
	b.AddSequence("first", "second").SetEntryPoint("first")
	return b.MustCompile(graph.LeaseTTL(time.Second))
}

type endlessState struct {
	N graph.Sum[int] `json:"n"`
}

func endless() *graph.Graph[endlessState] {
	b := graph.New[endlessState]("endless")
	b.AddNode("again", func(_ context.Context, s *endlessState) error { s.N.Add(1); return nil })
	b.SetEntryPoint("again").AddEdge("again", "again")
	return b.MustCompile()
}

// await waits for a file to appear.
func await(t *testing.T, path string) {
	t.Helper()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("no file %s", path)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// program returns a command that runs in dir.
func program(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SUPERSTEP_STORE=sqlite:"+filepath.Join(dir, "t.db"), "TERM=xterm")
	return cmd
}

type napState struct {
	Millis int  `json:"millis"`
	Rested bool `json:"rested"`
}

// nap sleeps.
func nap() *graph.Graph[napState] {
	b := graph.New[napState]("nap")
	b.AddNode("sleep", func(ctx context.Context, s *napState) error {
		if err := graph.Sleep(ctx, "nap", time.Duration(s.Millis)*time.Millisecond); err != nil {
			return err
		}
		s.Rested = true
		return nil
	})
	b.SetEntryPoint("sleep")
	return b.MustCompile()
}

// greeter takes a name and gives a greeting; its state is its own.
func greeter() *graph.Graph[joke] {
	type person struct {
		Name string `json:"name"`
	}
	type greeting struct {
		Hello string `json:"hello"`
	}
	b := graph.New[joke]("greeter")
	graph.SetInput(b, func(s *joke, in person) error { s.Topic = in.Name; return nil })
	graph.SetOutput(b, func(s *joke) greeting { return greeting{s.Topic} })
	type manner struct {
		Title string `json:"title"`
	}
	b.AddNode("greet", func(ctx context.Context, s *joke) error {
		m, err := graph.Configured[manner](ctx)
		s.Topic = m.Title + s.Topic
		s.Jokes.Add("inside")
		return err
	})
	b.SetEntryPoint("greet")
	return b.MustCompile(graph.Configurable(manner{}))
}

type orderState struct {
	Paid float64 `json:"paid"`
}

// order waits for an event.
func order() *graph.Graph[orderState] {
	b := graph.New[orderState]("order")
	b.AddNode("wait", func(ctx context.Context, s *orderState) (err error) {
		s.Paid, err = graph.WaitFor[float64](ctx, "", "paid")
		return err
	})
	b.SetEntryPoint("wait")
	return b.MustCompile()
}

// newerJokes has no node review, and a newer schema.
func newerJokes(name string) *graph.Graph[joke] {
	b := graph.New[joke](name)
	b.AddNode("write", func(_ context.Context, s *joke) error { s.Jokes.Add("new"); return nil })
	b.AddNode("reviews", func(ctx context.Context, s *joke) error {
		_, err := graph.Interrupt[bool](ctx, "like", nil)
		return err
	})
	b.AddSequence("write", "reviews").SetEntryPoint("write")
	return b.MustCompile(graph.SchemaVersion(2))
}

// abandon leaves a thread as a run that died leaves it: abandon STORE THREAD
func abandon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: abandon STORE THREAD")
	}
	s, err := cli.OpenURL(context.Background(), "sqlite:"+ts.MkAbs(args[0]))
	ts.Check(err)
	defer s.Close()
	_, err = s.Write(context.Background(), &checkpoint.Write{
		Log: checkpoint.Log{Thread: checkpoint.ThreadID(args[1])}, Claim: true, Lease: time.Millisecond, Holder: string(checkpoint.NewRunID()) + " pid 7 on mars x.y",
	})
	ts.Check(err)
	time.Sleep(5 * time.Millisecond)
}

// tear takes bytes off the end of a file: tear FILE N
func tear(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tear FILE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	info, err := os.Stat(path)
	ts.Check(err)
	ts.Check(os.Truncate(path, info.Size()-int64(n)))
}
