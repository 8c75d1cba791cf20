package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/server"
)

// UseMemory makes the commands give the graphs a long-term memory of the program's own,
// where memory.From finds it, and serve that one. It is the program's to close. Without it
// the memory stands beside the threads, where --store says, whichever command runs a graph.
func UseMemory(m memory.Store) Option { return func(a *app) { a.items = m } }

// openEmbedder returns the embedding model of a name, whose vectors have a length.
type openEmbedder func(name string, dimensions int) (model.Embedder, error)

// Embedders adds the flag --store-index to the commands that run graphs, which makes the
// long-term memory one that can be searched by meaning, with a model that open
// finds: that of package model/models, or one of the program's own.
//
//	cli.Main(cli.Graph(g), cli.Embedders(models.OpenEmbedder))
//
// A program that needs no flag for it has [UseMemory].
func Embedders(open func(name string, dimensions int) (model.Embedder, error)) Option {
	return func(a *app) { a.embedder = open }
}

// indexing is what a command was told about an index of the memory.
type indexing struct {
	model  string
	length int
	fields []string
}

// lengths are those of the vectors of well-known models.
var lengths = map[string]int{
	"openai:text-embedding-3-small": 1536,
	"openai:text-embedding-3-large": 3072,
	"openai:text-embedding-ada-002": 1536,
	"gemini:gemini-embedding-001":   3072,
}

// indexFlags adds the flags about an index of the memory to a command that runs graphs.
func (a *app) indexFlags(cmd *cobra.Command) *cobra.Command {
	if a.embedder == nil {
		return cmd
	}
	f := cmd.Flags()
	f.StringVar(&a.index.model, "store-index", "", "the embedding model by which the long-term memory is searched for a query, such as openai:text-embedding-3-small")
	f.IntVar(&a.index.length, "store-index-dims", 0, "how many dimensions its vectors have (default: those of well-known models)")
	f.StringSliceVar(&a.index.fields, "store-index-fields", nil, "the fields of items whose texts count, such as text,notes[*].text; may be repeated (default: the whole item)")
	return cmd
}

// indexed returns the memory's index; nil if there is to be none.
func (a *app) indexed() (*memory.Index, error) {
	x := a.index
	if x.model == "" {
		if x.length != 0 || len(x.fields) > 0 {
			return nil, Hint(Usage("--store-index-dims and --store-index-fields are for --store-index, which is missing"), "name the model: --store-index openai:text-embedding-3-small")
		}
		return nil, nil
	}
	if a.items != nil {
		return nil, Usage("--store-index is for the memory beside a store, and this program has one of its own")
	}
	name, _, _ := strings.Cut(x.model, "@http") // wherever it is
	length := cmp.Or(x.length, lengths[name])
	if length < 1 {
		return nil, Hint(Usage("--store-index-dims must say how many dimensions the vectors of %s have", name), "the model's description says it: 768 for ollama:nomic-embed-text")
	}
	e, err := a.embedder(x.model, length)
	if err != nil {
		return nil, Usage("--store-index: %w", err)
	}
	return &memory.Index{Embedder: e, Fields: x.fields, Name: name}, nil
}

// memories gives runs in this process the long-term memory, which is opened when one of
// them uses it, and is the one that serve would show.
func (a *app) memories() (graph.SubgraphOption, error) {
	index, err := a.indexed()
	if err != nil {
		return nil, err
	}
	if a.items != nil {
		return memory.Use(a.items), nil
	}
	late := &lateMemory{open: func(ctx context.Context) (memory.Store, error) {
		if a.ownStore() {
			return nil, errors.New("this program keeps threads in a store of its own, beside which there is no memory: give it one with cli.UseMemory")
		}
		return server.OpenMemory(ctx, a.storeURL(), memory.Config{Index: index})
	}}
	a.atClose(late.Close)
	return memory.Use(memory.Store(late)), nil
}

// lateMemory is a memory that is opened when it is first used.
type lateMemory struct {
	open func(ctx context.Context) (memory.Store, error)

	mu     sync.Mutex
	opened memory.Store
	closed bool
}

func (l *lateMemory) store(ctx context.Context) (memory.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, memory.ErrClosed
	}
	if l.opened == nil {
		s, err := l.open(context.WithoutCancel(ctx)) // it outlives the first who uses it
		if err != nil {
			return nil, fmt.Errorf("the long-term memory: %w", err)
		}
		l.opened = s
	}
	return l.opened, nil
}

func (l *lateMemory) Get(ctx context.Context, namespace []string, key string, opts ...memory.GetOptions) (memory.Item, error) {
	s, err := l.store(ctx)
	if err != nil {
		return memory.Item{}, err
	}
	return s.Get(ctx, namespace, key, opts...)
}

func (l *lateMemory) Put(ctx context.Context, namespace []string, key string, value json.RawMessage, opts ...memory.PutOptions) (memory.Item, error) {
	s, err := l.store(ctx)
	if err != nil {
		return memory.Item{}, err
	}
	return s.Put(ctx, namespace, key, value, opts...)
}

func (l *lateMemory) Delete(ctx context.Context, namespace []string, key string, opts ...memory.DeleteOptions) error {
	s, err := l.store(ctx)
	if err != nil {
		return err
	}
	return s.Delete(ctx, namespace, key, opts...)
}

func (l *lateMemory) Search(ctx context.Context, prefix []string, q memory.Query) ([]memory.Item, error) {
	s, err := l.store(ctx)
	if err != nil {
		return nil, err
	}
	return s.Search(ctx, prefix, q)
}

func (l *lateMemory) Namespaces(ctx context.Context, q memory.NamespaceQuery) ([][]string, error) {
	s, err := l.store(ctx)
	if err != nil {
		return nil, err
	}
	return s.Namespaces(ctx, q)
}

func (l *lateMemory) Sweep(ctx context.Context) (int, error) {
	s, err := l.store(ctx)
	if err != nil {
		return 0, err
	}
	return s.Sweep(ctx)
}

func (l *lateMemory) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return memory.ErrClosed
	}
	if l.closed = true; l.opened == nil {
		return nil
	}
	return l.opened.Close()
}
