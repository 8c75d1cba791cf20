package cli_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model/models"
	"github.com/superstep-dev/superstep/server"
)

// counting counts its runs in the long-term memory.
func counting(opts ...graph.Option) *graph.Graph[counted] {
	b := graph.New[counted]("counting")
	b.AddNode("count", func(ctx context.Context, s *counted) error {
		m, err := memory.From(ctx)
		if err != nil {
			return err
		}
		_, err = memory.Update(ctx, m, []string{"counts"}, "runs", func(c *counted) error {
			c.Runs++
			*s = *c
			return nil
		})
		return err
	})
	b.AddEdge(graph.Start, "count")
	g, err := b.Compile(opts...)
	if err != nil {
		panic(err)
	}
	return g
}

type counted struct {
	Runs int `json:"runs"`
}

func commanded(t *testing.T, opts []cli.Option, args ...string) (code int, said string) {
	t.Helper()
	var out bytes.Buffer
	code = cli.Run(t.Context(), args, strings.NewReader(""), &out, &out, opts...)
	return code, out.String()
}

func TestTheCommandsHaveTheMemoryThatServeShows(t *testing.T) {
	own, err := memory.NewInMemory()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		store string
		opts  []cli.Option
	}{
		"beside the threads": {store: "sqlite:" + filepath.Join(t.TempDir(), "a.db")},
		"of the program's":   {store: "memory", opts: []cli.Option{cli.UseMemory(own)}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append(tt.opts, cli.Graph(counting()))
			for range 2 {
				if code, said := commanded(t, opts, "run", "counting", "--store", tt.store); code != 0 {
					t.Fatal(code, said)
				}
			}
			url := servedWith(t, opts, "--store", tt.store)
			var item struct{ Value counted }
			tell(t, "GET", url+"/store/items?namespace=counts&key=runs", "", &item)
			if item.Value.Runs != 2 {
				t.Errorf("clients see %d runs, and there were 2", item.Value.Runs)
			}
		})
	}
}

func TestCommandsSayWhatIsWrongWithAMemory(t *testing.T) {
	own, err := memory.NewInMemory()
	if err != nil {
		t.Fatal(err)
	}
	run := []string{"run", "counting"}
	for name, tt := range map[string]struct {
		says string
		opts []cli.Option
		args []string
	}{
		"where none can be":            {"take one of your own with UseMemory", []cli.Option{cli.Graph(counting())}, append(run, "--store", "file:"+t.TempDir())},
		"beside a store of its own":    {"give it one with cli.UseMemory", []cli.Option{cli.Graph(counting()), cli.UseStore(checkpoint.NewMemory())}, run},
		"two":                          {"compiled with a memory of its own", []cli.Option{cli.Graph(counting(memory.Use(own)))}, run},
		"one for the server alone":     {"give the memory to cli.UseMemory", []cli.Option{cli.Graph(counting()), cli.Server(server.UseMemory(own))}, []string{"serve", "--port", "0", "--store", "memory"}},
		"an index of one of its own":   {"this program has one of its own", []cli.Option{cli.Graph(counting()), cli.UseMemory(own), cli.Embedders(models.OpenEmbedder)}, append(run, "--store", "memory", "--store-index", "openai:x")},
		"an index of that of a server": {"that of a server has the index that the server was given", []cli.Option{cli.Graph(counting()), cli.Embedders(models.OpenEmbedder)}, append(run, "--url", "http://127.0.0.1:1", "--store-index", "openai:x")},
	} {
		if code, said := commanded(t, tt.opts, tt.args...); code == 0 || !strings.Contains(said, tt.says) {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
}
