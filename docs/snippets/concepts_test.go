package snippets_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/superstep-dev/superstep/cache/sqlite"
	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

type Point struct{ X, Y float64 }

type Trip struct {
	City  string    // plain fields: strings, numbers, bools,
	At    Point     // structs and arrays of them,
	Leave time.Time // and times

	Tags     graph.Value[[]string]           // any type; replaced as a whole
	Stops    graph.List[string]              // concatenated
	Prices   graph.Map[string, int]          // merged by key
	Cost     graph.Sum[int]                  // added up
	Visitors graph.Set[string]               // united
	Best     graph.Reduced[float64, highest] // folded with a reducer of yours
	Hint     graph.Ephemeral[string]         // readable in the next superstep only
	Scratch  graph.Untracked[func()]         // never stored
}

// highest is a reducer: it keeps the greater of two numbers.
type highest struct{}

func (highest) Reduce(current, update float64) float64 { return max(current, update) }

func Example_reducer() {
	rate := func(x float64) func(context.Context, *Trip) error {
		return func(_ context.Context, s *Trip) error {
			s.Best.Add(x)
			return nil
		}
	}
	b := graph.New[Trip]("ratings")
	b.AddNode("ann", rate(3.5))
	b.AddNode("bob", rate(4.5))
	b.AddEdge(graph.Start, "ann").AddEdge(graph.Start, "bob")
	snap, err := b.MustCompile().Invoke(ctx, nil)
	fmt.Println(snap.State.Best, err)
	// Output: 4.5 <nil>
}

type Broken struct {
	Items []string
}

func Example_plainSlice() {
	b := graph.New[Broken]("broken")
	b.AddNode("a", func(context.Context, *Broken) error { return nil })
	b.AddEdge(graph.Start, "b")
	_, err := b.Compile()
	broken, _ := errors.AsType[*graph.CompileError](err)
	for _, p := range broken.Problems {
		fmt.Println(p.Kind, p.Name)
	}
	// Output:
	// field type Items
	// unknown node b
}

type Ticket struct {
	Text     string
	Urgent   bool
	Trail    graph.List[string]
	Priority int
}

func visit(name string) func(context.Context, *Ticket) error {
	return func(_ context.Context, s *Ticket) error {
		s.Trail.Add(name)
		return nil
	}
}

func Example_routes() {
	b := graph.New[Ticket]("routes")
	b.AddNode("read", visit("read"))
	b.AddNode("now", visit("now"))
	b.AddNode("later", visit("later"))
	b.AddEdge(graph.Start, "read")
	//snippet:routes
	b.AddRoutes("read", func(_ context.Context, s *Ticket) (string, error) {
		if s.Urgent {
			return "urgent", nil
		}
		return "normal", nil
	}, map[string]string{"urgent": "now", "normal": "later"})
	//snippet:end
	snap, err := b.MustCompile().Invoke(ctx, func(s *Ticket) error {
		s.Urgent = true
		return nil
	})
	fmt.Println(snap.State.Trail, err)
	// Output: [read now] <nil>
}

func Example_command() {
	b := graph.New[Ticket]("command")
	//snippet:command
	b.AddCommandNode("triage", func(_ context.Context, s *Ticket) (graph.Command, error) {
		if s.Text == "" {
			return graph.EndRun(), nil
		}
		s.Priority = len(s.Text)
		return graph.Goto("answer", "notify"), nil // both, in parallel
	}, graph.Destinations("answer", "notify"))
	//snippet:end
	b.AddNode("answer", visit("answer"))
	b.AddNode("notify", visit("notify"))
	b.AddEdge(graph.Start, "triage")
	snap, err := b.MustCompile().Invoke(ctx, func(s *Ticket) error {
		s.Text = "help"
		return nil
	})
	fmt.Println(snap.State.Trail, snap.State.Priority, err)
	// Output: [answer notify] 4 <nil>
}

func Example_send() {
	b := graph.New[Ticket]("send")
	//snippet:send
	lookUp := graph.AddTask(b, "look up", func(_ context.Context, s *Ticket, word string) error {
		s.Trail.Add("looked up " + word)
		return nil
	})
	b.AddCommandNode("split", func(_ context.Context, s *Ticket) (graph.Command, error) {
		return graph.Dispatch(lookUp.Send("error"), lookUp.Send("timeout")), nil
	}, graph.Destinations("look up"))
	b.AddEdge("look up", "sum up") // runs once, after all of them
	//snippet:end
	b.AddNode("sum up", visit("sum up"))
	b.AddEdge(graph.Start, "split")
	snap, err := b.MustCompile().Invoke(ctx, nil)
	fmt.Println(snap.State.Trail, err)
	// Output: [looked up error looked up timeout sum up] <nil>
}

func diamond(join bool) *graph.Graph[Ticket] {
	b := graph.New[Ticket]("diamond")
	for _, n := range []string{"short", "long 1", "long 2", "end"} {
		b.AddNode(n, visit(n))
	}
	b.AddEdge(graph.Start, "short")
	b.AddSequence(graph.Start, "long 1", "long 2")
	if join {
		//snippet:join
		b.AddJoin([]string{"short", "long 2"}, "end")
		//snippet:end
	} else {
		//snippet:edges
		b.AddEdge("short", "end")
		b.AddEdge("long 2", "end")
		//snippet:end
	}
	return b.MustCompile()
}

func Example_diamond() {
	edges, _ := diamond(false).Invoke(ctx, nil)
	fmt.Println("edges:", edges.State.Trail)
	join, _ := diamond(true).Invoke(ctx, nil)
	fmt.Println("join: ", join.State.Trail)
	// Output:
	// edges: [short long 1 long 2 end end]
	// join:  [short long 1 long 2 end]
}

func Example_defer() {
	b := graph.New[Ticket]("defer")
	b.AddNode("a", visit("a"))
	b.AddNode("b", visit("b"))
	//snippet:defer
	b.AddNode("close", visit("close"), graph.Defer())
	b.AddEdge("a", "close")
	//snippet:end
	b.AddSequence(graph.Start, "a", "b")
	snap, err := b.MustCompile().Invoke(ctx, nil)
	fmt.Println(snap.State.Trail, err)
	// Output: [a b close] <nil>
}

// Question is asked again and again.
type Question struct{ Topic, Answer string }

func cached(path string) error {
	b := graph.New[Question]("help")
	lookUp := func(_ context.Context, s *Question) error {
		fmt.Println("looking up", s.Topic)
		s.Answer = "all about " + s.Topic
		return nil
	}
	//snippet:cache
	results, err := sqlite.Open(path) // cache/sqlite: for all processes that open the file
	if err != nil {
		return err
	}
	defer results.Close()
	b.AddNode("look up", lookUp, graph.Cache(graph.CachePolicy{
		Store:   results,
		TTL:     24 * time.Hour,
		Version: "2", // changed with the node's code
		Key:     func(state any, _ json.RawMessage) (string, error) { return state.(*Question).Topic, nil },
	}))
	//snippet:end
	g := b.AddEdge(graph.Start, "look up").MustCompile()
	ask := func() error {
		snap, err := g.Invoke(ctx, func(s *Question) error { s.Topic = "tea"; return nil })
		fmt.Println(snap.State.Answer)
		return err
	}
	if err := errors.Join(ask(), ask()); err != nil {
		return err
	}
	//snippet:clear
	err = g.ClearCache(ctx, "look up")
	//snippet:end
	return errors.Join(err, ask())
}

func Example_cache() {
	dir, err := os.MkdirTemp("", "")
	if err == nil {
		defer os.RemoveAll(dir)
		err = cached(filepath.Join(dir, "results.db"))
	}
	fmt.Println(err)
	// Output:
	// looking up tea
	// all about tea
	// all about tea
	// looking up tea
	// all about tea
	// <nil>
}

// Rates is something that nodes need and that is never stored.
type Rates interface{ Rate(currency string) float64 }

type fixedRates map[string]float64

func (f fixedRates) Rate(currency string) float64 { return f[currency] }

func convert(ctx context.Context, s *Trip) error {
	rates, err := graph.Deps[Rates](ctx)
	if err != nil {
		return err
	}
	s.Best.Add(100 * rates.Rate("EUR"))
	return nil
}

func Example_deps() {
	b := graph.New[Trip]("deps")
	b.AddNode("convert", convert)
	b.AddEdge(graph.Start, "convert")

	// One source of rates for all threads, made once.
	shared := fixedRates{"EUR": 1.25}
	g := b.MustCompile(
		graph.ProvideDeps(func(context.Context) (Rates, error) { return shared, nil }),
		graph.RequireDeps[Rates](),
		graph.WithCheckpointer(checkpoint.NewMemory()))
	for _, thread := range []string{"t-1", "t-2"} {
		t := g.Thread(thread)
		snap, err := t.Invoke(ctx, t.Input(func(*Trip) error { return nil }))
		fmt.Println(snap.State.Best, err)
	}
	// Output:
	// 125 <nil>
	// 125 <nil>
}

// Login is a part of a state that several graphs share.
type Login struct {
	User  string
	Steps graph.List[string]
}

// Shop embeds it.
type Shop struct {
	Login
	Basket graph.List[string]
}

func Example_shared() {
	login := graph.New[Login]("login")
	login.AddNode("check", func(_ context.Context, s *Login) error {
		s.Steps.Add("checked " + s.User)
		return nil
	})
	login.AddEdge(graph.Start, "check")

	shop := graph.New[Shop]("shop")
	graph.AddShared(shop, "login", login.MustCompile(), func(s *Shop) *Login { return &s.Login })
	shop.AddEdge(graph.Start, "login")

	snap, err := shop.MustCompile().Invoke(ctx, func(s *Shop) error {
		s.User = "ann"
		return nil
	})
	fmt.Println(snap.State.Steps, err)
	// Output: [checked ann] <nil>
}

func Example_updateJSON() {
	b := graph.New[Trip]("json")
	b.AddNode("convert", func(context.Context, *Trip) error { return nil })
	b.AddEdge(graph.Start, "convert")
	g := b.MustCompile()

	s := &Trip{City: "Oslo"}
	s.Stops.Add("harbour")
	err := g.UpdateJSON(s, []byte(`{"City": "Bergen", "Stops": ["funicular"], "Cost": 12}`))
	fmt.Println(s.City, s.Stops, s.Cost, err)
	err = g.UpdateJSON(s, []byte(`{"Stops": {"$overwrite": ["fish market"]}}`))
	fmt.Println(s.Stops, err)
	// Output:
	// Bergen [harbour funicular] 12 <nil>
	// [fish market] <nil>
}

func Example_drawing() {
	b := graph.New[Ticket]("ticket")
	b.AddNode("read", visit("read"))
	b.AddNode("answer", visit("answer"))
	b.AddEdge(graph.Start, "read")
	b.AddRoutes("read", func(context.Context, *Ticket) (string, error) { return "known", nil },
		map[string]string{"known": "answer", "spam": graph.End})
	fmt.Println(draw.Mermaid(b.MustCompile().Drawing(0), nil))
	// Output:
	// graph TD
	//     __start__(["__start__"])
	//     answer["answer"]
	//     read["read"]
	//     __end__(["__end__"])
	//     __start__ --> read
	//     read -.-> |known| answer
	//     read -.-> |spam| __end__
}

func Example_config() {
	type Config struct {
		Currency string  `json:"currency"`
		Limit    float64 `json:"limit"`
	}
	b := graph.New[Trip]("config")
	b.AddNode("spend", func(ctx context.Context, s *Trip) error {
		c, err := graph.Configured[Config](ctx)
		s.City = fmt.Sprintf("%.0f %s", c.Limit, c.Currency)
		return err
	})
	b.AddEdge(graph.Start, "spend")
	g := b.MustCompile(graph.Configurable(Config{Currency: "EUR", Limit: 100}))

	snap, err := g.Invoke(ctx, nil, graph.Configure(func(c *Config) { c.Limit = 250 }))
	fmt.Println(snap.State.City, err)
	snap, err = g.Invoke(ctx, nil, graph.ConfigureJSON([]byte(`{"currency": "NOK"}`))) // from outside
	fmt.Println(snap.State.City, err)
	// Output:
	// 250 EUR <nil>
	// 100 NOK <nil>
}

type Report struct {
	Pages graph.List[string]
	Sent  bool
}

// fetch reads a page.
func fetch(_ context.Context, url string) (string, error) { return "<" + url + ">", nil }

// send sends pages, once for each key.
func send(ctx context.Context, pages []string) (bool, error) {
	_ = graph.Info(ctx).IdempotencyKey // for the service that sends
	return len(pages) > 0, nil
}

// report is a whole workflow.
func report(ctx context.Context, s *Report) error {
	var pages []*graph.Future[string]
	for _, url := range []string{"a.example", "b.example"} { // at once
		pages = append(pages, graph.Go(ctx, "fetch", fetch, url,
			graph.Retry(graph.RetryPolicy{}), graph.Timeout(time.Minute)))
	}
	for _, p := range pages {
		page, err := p.Wait(ctx)
		if err != nil {
			return err
		}
		s.Pages.Add(page)
	}
	ok, err := graph.Interrupt[bool](ctx, "send", s.Pages.Slice()) // days may pass
	if err != nil || !ok {
		return err
	}
	s.Sent, err = graph.Do(ctx, "send", send, s.Pages.Slice())
	return err
}

func Example_report() {
	//snippet:oneFunction
	g := graph.New[Report]("report").AddNode("run", report).AddEdge(graph.Start, "run").
		MustCompile(graph.WithCheckpointer(checkpoint.NewMemory()))
	//snippet:end
	t := g.Thread("t")
	snap, err := t.Invoke(ctx, t.Input(func(*Report) error { return nil }))
	fmt.Println(snap.Interrupts[0].Value, err)
	snap, err = t.Invoke(ctx, t.Answer(true))
	fmt.Println(snap.State.Sent, err)
	// Output:
	// [<a.example> <b.example>] <nil>
	// true <nil>
}
