package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/internal/plan"
)

// missing reports whether an error says that a thread, or a checkpoint, isn't there.
func missing(err error) bool {
	return errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, client.ErrNotFound)
}

// unknown says that there is no such thing, by the words in what; list is what there is.
func unknown(what error, name string, names []string, list string) *usageError {
	e := &usageError{what, list}
	if near := plan.Nearest(name, names); near != "" {
		e.hint = fmt.Sprintf("did you mean %q? %s", near, e.hint)
	}
	return e
}

// known returns what a thread is of, or an error that names the nearest threads.
func known(ctx context.Context, p place, thread string) (ownership, error) {
	of, err := p.thread(ctx, thread)
	if !missing(err) {
		return of, err
	}
	names, err := p.newest(ctx, 100) // one request of a server
	hint := ""
	switch near := plan.Nearest(thread, names); {
	case near != "":
		hint = fmt.Sprintf("did you mean %q?", near)
	case len(names) > 5:
		hint = "newest threads: " + strings.Join(names[:5], ", ") + ", …"
	case len(names) > 0:
		hint = "threads: " + strings.Join(names, ", ")
	case err == nil:
		hint = "it has no threads"
	}
	return of, Hint(fmt.Errorf("unknown thread %q in %s", thread, p.label()), "%s", hint)
}

// owned reports whether a thread exists. The error says that it is of another graph than t.
func owned(ctx context.Context, p place, thread string, t target) (bool, error) {
	of, err := p.thread(ctx, thread)
	if missing(err) {
		return false, nil
	}
	if err == nil && of.own != "" && of.own != t.info().own {
		err = &usageError{fmt.Errorf("thread %q belongs to graph %q, not %q", thread, of.name, t.info().name), "leave --thread out for a new thread, or give that another ID"}
	}
	return true, err
}

// choose finds the thread and the graph that a command is about. Where there is one thread
// alone, it is meant; a thread knows its graph.
func (a *app) choose(ctx context.Context, p place, args []string, thread string) (t target, _ string, err error) {
	if len(args) > 0 {
		if t, err = p.graph(ctx, args[0]); err != nil {
			if thread != "" {
				return nil, "", err
			}
			if _, odd := p.thread(ctx, args[0]); odd == nil {
				err = &usageError{fmt.Errorf("%q is a thread, and no graph", args[0]), "name it with the flag: --thread " + quote(args[0])}
			}
			return nil, "", err
		}
	}
	if thread == "" {
		if thread, err = a.onlyThread(ctx, p); err != nil {
			return nil, "", err
		}
	}
	of, err := known(ctx, p, thread)
	switch {
	case err != nil:
		return nil, "", err
	case t == nil:
		t, err = of.graph()
	case of.own != "" && of.own != t.info().own:
		err = &usageError{fmt.Errorf("thread %q belongs to graph %q, not %q", thread, of.name, args[0]), "name that graph, or none"}
	}
	return t, thread, err
}

func (a *app) onlyThread(ctx context.Context, p place) (string, error) {
	names, err := p.newest(ctx, 6)
	if err != nil {
		return "", err
	}
	switch len(names) {
	case 0:
		return "", Hint(fmt.Errorf("there are no threads in %s", p.label()), "start one: %s run GRAPH%s", a.name, p.arg())
	case 1:
		return names[0], nil
	}
	if len(names) > 5 {
		names = append(names[:5], "…")
	}
	return "", &usageError{errors.New("several threads are there: name one with --thread"), "newest first: " + strings.Join(names, ", ")}
}
