// Digest reads every text file of a folder, one task a file, drafts an overview and asks
// before it writes it. Each file takes a moment, as if a model read it.
//
// Every result is a record in a file of its own: press Ctrl-C in the middle, run the same
// command again, and it goes on where it was. So does the question, a month later too.
//
//	go run ./examples/digest docs
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

// State is the folder and what was made of it.
type State struct {
	Dir      string
	Files    int
	Notes    graph.Map[string, string] // by file
	Overview string
	Written  bool
}

func build(pace time.Duration, out string, store checkpoint.Store) (*graph.Graph[State], error) {
	b := graph.New[State]("digest")
	read := graph.AddTask(b, "read", func(ctx context.Context, s *State, path string) error {
		text, err := os.ReadFile(filepath.Join(s.Dir, path))
		if err != nil {
			return err
		}
		select {
		case <-time.After(pace): // a call of a model comes here
		case <-ctx.Done():
			return ctx.Err()
		}
		_, title, _ := strings.Cut("\n"+string(text), "\n# ")
		title, _, _ = strings.Cut(title, "\n")
		s.Notes.Put(path, fmt.Sprintf("%d words, %q", len(strings.Fields(string(text))), title))
		fmt.Println("read", path)
		return nil
	})
	b.AddCommandNode("list", func(_ context.Context, s *State) (graph.Command, error) {
		var sends []graph.Send
		err := fs.WalkDir(os.DirFS(s.Dir), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && (filepath.Ext(path) == ".md" || filepath.Ext(path) == ".txt") {
				sends = append(sends, read.Send(path))
			}
			return err
		})
		if s.Files = len(sends); err == nil && s.Files == 0 {
			err = fmt.Errorf("%s has no .md or .txt files", s.Dir)
		}
		return graph.Dispatch(sends...), err
	}, graph.Destinations("read"))
	b.AddNode("draft", func(_ context.Context, s *State) error {
		s.Overview = ""
		for path, note := range s.Notes.All() { // in the order of the names
			s.Overview += fmt.Sprintf("- %s: %s\n", path, note)
		}
		return nil
	})
	b.AddNode("ask", func(ctx context.Context, s *State) (err error) {
		s.Written, err = graph.Interrupt[bool](ctx, "write", s.Overview)
		return err
	})
	b.AddNode("write", func(_ context.Context, s *State) error {
		if !s.Written {
			return nil
		}
		return os.WriteFile(out, []byte(s.Overview), 0o666)
	})
	b.AddEdge(graph.Start, "list").AddEdge("read", "draft")
	b.AddSequence("draft", "ask", "write", graph.End)
	// A process that was killed may seem to hold the thread for some seconds: wait for it.
	return b.Compile(graph.WithCheckpointer(store), graph.MaxConcurrency(4), graph.WhenBusy(graph.BusyQueue))
}

func run(ctx context.Context, dir, threads, out string, pace time.Duration) error {
	store, err := file.Open(threads, file.Options{Recover: true})
	if err != nil {
		return err
	}
	defer store.Close()
	g, err := build(pace, out, store)
	if err != nil {
		return err
	}
	// What is to be done follows from where the thread is.
	t := g.Thread("digest:" + dir)
	snap, err := t.State(ctx)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound) || err == nil && snap.Done():
		fmt.Print(draw.Diagram(g.Drawing(0), &draw.DiagramOptions{HideStartEnd: true}), "\n")
		snap, err = t.Invoke(ctx, t.Input(func(s *State) error {
			s.Dir = dir
			s.Notes.Overwrite(nil) // a digest that was made before begins anew
			return nil
		}))
	case err == nil && len(snap.Interrupts) == 0:
		fmt.Println("going on")
		snap, err = t.Invoke(ctx, t.Continue())
	}
	if err != nil {
		return err
	}
	if len(snap.Interrupts) > 0 {
		fmt.Printf("\n%v\nWrite it to %s? [yes/no] ", snap.Interrupts[0].Value, out)
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err == io.EOF && line == "" {
			fmt.Println("\nNo answer: the question waits. Run the command again to give one.")
			return nil
		}
		if snap, err = t.Invoke(ctx, t.Answer(strings.HasPrefix(strings.ToLower(line), "y"))); err != nil {
			return err
		}
	}
	fmt.Println("written:", snap.State.Written)
	return nil
}

func main() {
	threads := flag.String("threads", "digest.threads", "folder of the records")
	out := flag.String("out", "digest.md", "file of the overview")
	pace := flag.Duration("pace", 500*time.Millisecond, "what each file takes")
	flag.Parse()
	dir := "."
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	if err := run(context.Background(), dir, *threads, *out, *pace); err != nil {
		log.Fatal(err)
	}
}
