// Command mapreduce counts in a thousand parts at once, adds up, asks somebody, and publishes:
// on one machine, or by workers on many, of which any may die.
//
//	mapreduce                                                # all in this process
//	mapreduce -store postgres://… -temporal HOST:PORT -work  # a worker: start three, and kill one
//	mapreduce -store postgres://… -temporal HOST:PORT        # has the workers count
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/fleet"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/temporal"
)

// Report is the state.
type Report struct {
	Parts     int
	Counted   graph.Sum[int]
	Published bool
}

// report is the graph; each part takes some time.
func report(store checkpoint.Store, each time.Duration) (*graph.Graph[Report], error) {
	b := graph.New[Report]("report")
	count := graph.AddTask(b, "count", func(ctx context.Context, r *Report, part int) error {
		select {
		case <-time.After(each):
			r.Counted.Add(part)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	b.AddCommandNode("split", func(_ context.Context, r *Report) (graph.Command, error) {
		parts := make([]graph.Send, r.Parts)
		for i := range parts {
			parts[i] = count.Send(i + 1)
		}
		return graph.Dispatch(parts...), nil
	}, graph.Destinations("count"))
	b.AddNode("approve", func(ctx context.Context, r *Report) (err error) {
		r.Published, err = graph.Interrupt[bool](ctx, "approve", fmt.Sprintf("Publish that it is %d?", r.Counted.Get()))
		return err
	})
	b.AddEdge(graph.Start, "split").AddEdge("count", "approve")
	return b.Compile(graph.WithCheckpointer(store))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("mapreduce", flag.ContinueOnError)
	url := flags.String("store", "memory", "where the threads are: memory, sqlite:PATH, postgres://…")
	address := flags.String("temporal", "", "address of a server of Temporal; empty: all is done here")
	work := flags.Bool("work", false, "be a worker")
	parts := flags.Int("parts", 1000, "how many parts there are")
	each := flags.Duration("each", 50*time.Millisecond, "how long each takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, err := stores.Open(ctx, *url)
	if err != nil {
		return err
	}
	defer store.Close()
	g, err := report(store, *each)
	if err != nil {
		return err
	}
	fw, err := fleet.NewWorker(store, fleet.Options{}, fleet.Program{Graph: g})
	if err != nil {
		return err
	}
	var d fleet.Dispatcher
	if *address == "" {
		here, err := fleet.NewLocal(fw, fleet.LocalOptions{})
		if err != nil {
			return err
		}
		defer here.Close()
		d = here
	} else {
		c, err := client.Dial(client.Options{HostPort: *address, Namespace: os.Getenv("TEMPORAL_NAMESPACE")})
		if err != nil {
			return err
		}
		defer c.Close()
		o := temporal.Options{TaskQueue: "reports", Batch: 25, Heartbeat: 3 * time.Second}
		if *work {
			w, err := temporal.Begin(c, o, worker.Options{})(fw)
			if err != nil {
				return err
			}
			<-ctx.Done()
			return w.(io.Closer).Close()
		}
		if d, err = temporal.New(c, o); err != nil {
			return err
		}
	}
	return ask(ctx, &fleet.Client{Dispatcher: d, Store: store}, g, *parts, stdin, stdout)
}

// ask has a report made and says what comes of it.
func ask(ctx context.Context, c *fleet.Client, g *graph.Graph[Report], parts int, stdin io.Reader, stdout io.Writer) error {
	t := g.Thread(fmt.Sprint("report-", time.Now().UnixNano()))
	begun := time.Now()
	snap, err := fleet.Invoke(ctx, c, t, t.Input(func(r *Report) error { r.Parts = parts; return nil }))
	if err != nil {
		return err
	}
	if len(snap.Interrupts) != 1 {
		return errors.New("nothing is asked")
	}
	fmt.Fprintf(stdout, "%d parts in %s\n%v [y/n] ", parts, time.Since(begun).Round(time.Millisecond), snap.Interrupts[0].Value)
	said, _ := bufio.NewReader(stdin).ReadString('\n')
	if snap, err = fleet.Invoke(ctx, c, t, t.Answer(strings.TrimSpace(said) == "y")); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "published:", snap.State.Published)
	return nil
}
