package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/internal/console"
)

// threadStats says what a thread takes.
type threadStats struct {
	Thread    string `json:"thread"`
	Graph     string `json:"graph"`
	Records   int64  `json:"records"`        // of all its logs
	Bytes     int64  `json:"bytes"`          // as the store counts them
	Logs      int    `json:"logs"`           // its own and those of subgraphs
	Changes   int64  `json:"change_bytes"`   // what nodes, inputs and edits wrote
	Snapshots int64  `json:"snapshot_bytes"` // states written now and then, to read faster
	Payloads  int64  `json:"payload_bytes"`  // of tasks that were sent
}

// fieldStats says what was written to a field of a state.
type fieldStats struct {
	Graph   string `json:"graph"` // empty: unknown
	Field   string `json:"field"`
	Changes int64  `json:"changes"`
	Bytes   int64  `json:"bytes"`
}

// sealedField stands for records that only the program that sealed them can
// read.
const sealedField = "(sealed)"

func (a *app) statsCommand() *cobra.Command {
	var prefix string
	var limit int
	cmd := &cobra.Command{
		Use: "stats [THREAD]", GroupID: "look", Short: "Show what threads take, and which fields of the state",
		Long: `Show how much is stored of a thread, or of all threads, and how much was written to
each field of the state, the largest first. Every record is read.`,
		Args: args(0, 1, "THREAD"), ValidArgsFunction: a.completeThread,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case limit < 0:
				return Usage("--limit %d is negative", limit)
			case prefix != "" && len(args) > 0:
				return Usage("--prefix is for all threads; THREAD names one")
			}
			ctx := cmd.Context()
			store, err := a.open(ctx, false)
			if err != nil {
				return err
			}
			l, err := a.lister(store)
			if err != nil {
				return err
			}
			fields := map[[2]string]*fieldStats{}
			threads := []threadStats{}
			var ids []checkpoint.ThreadID
			if len(args) > 0 {
				if _, err := a.head(ctx, store, args[0]); err != nil {
					return err
				}
				ids = append(ids, checkpoint.ThreadID(args[0]))
			} else {
				for info, err := range l.Threads(ctx, checkpoint.ThreadFilter{Prefix: prefix}) {
					if err != nil {
						return err
					}
					ids = append(ids, info.Thread)
				}
			}
			for _, id := range ids {
				s, err := measure(ctx, store, l, id, fields)
				if err != nil {
					return fmt.Errorf("thread %q: %w", id, err)
				}
				threads = append(threads, s)
			}
			slices.SortStableFunc(threads, func(x, y threadStats) int {
				return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(y.Changes, x.Changes), strings.Compare(x.Thread, y.Thread))
			})
			list := make([]*fieldStats, 0, len(fields))
			for _, f := range fields {
				list = append(list, f)
			}
			slices.SortFunc(list, func(x, y *fieldStats) int {
				return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), strings.Compare(x.Graph, y.Graph), strings.Compare(x.Field, y.Field))
			})
			for i := range threads {
				threads[i].Graph = a.graphName(threads[i].Graph)
			}
			for _, f := range list {
				f.Graph = a.graphName(f.Graph)
			}
			w := a.console.Out
			if a.json {
				return writeJSON(w, struct {
					Threads []threadStats `json:"threads"`
					Fields  []*fieldStats `json:"fields"`
				}{threads, list}, true)
			}
			if len(threads) == 0 {
				fmt.Fprintf(w, "There are no threads in %s.\n", a.storeName())
				return nil
			}
			rows := [][]string{{"THREAD", "GRAPH", "RECORDS", "LOGS", "STORED", "CHANGES", "SNAPSHOTS", "PAYLOADS"}}
			var sum threadStats
			for i, s := range threads {
				sum.Records, sum.Logs, sum.Bytes = sum.Records+s.Records, sum.Logs+s.Logs, sum.Bytes+s.Bytes
				sum.Changes, sum.Snapshots, sum.Payloads = sum.Changes+s.Changes, sum.Snapshots+s.Snapshots, sum.Payloads+s.Payloads
				if limit == 0 || i < limit {
					rows = append(rows, s.row())
				}
			}
			if len(threads) > 1 {
				sum.Thread = console.Count(len(threads), "thread")
				rows = append(rows, sum.row())
			}
			a.table(rows)
			if limit > 0 && len(threads) > limit {
				fmt.Fprintf(w, "… and more: --limit 0 shows all\n")
			}
			fmt.Fprintln(w)
			rows = [][]string{{"FIELD", "GRAPH", "WRITTEN", "CHANGES", "SHARE"}}
			for _, f := range list {
				share := "-"
				if sum.Changes > 0 && f.Field != sealedField {
					share = fmt.Sprintf("%.0f %%", 100*float64(f.Bytes)/float64(sum.Changes))
				}
				rows = append(rows, []string{f.Field, f.Graph, bytesText(f.Bytes), fmt.Sprint(f.Changes), share})
			}
			a.table(rows)
			return nil
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only threads whose ID begins so")
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "how many threads to show at most; 0 shows all")
	return a.threadToo(cmd)
}

func (s *threadStats) row() []string {
	return []string{s.Thread, s.Graph, fmt.Sprint(s.Records), fmt.Sprint(s.Logs), bytesText(s.Bytes), bytesText(s.Changes), bytesText(s.Snapshots), bytesText(s.Payloads)}
}

// measure reads the records of a thread, and adds what they hold to fields.
func measure(ctx context.Context, store checkpoint.Store, l checkpoint.Lister, thread checkpoint.ThreadID, fields map[[2]string]*fieldStats) (threadStats, error) {
	s := threadStats{Thread: string(thread)}
	add := func(graph, field string, n int) {
		f := fields[[2]string{graph, field}]
		if f == nil {
			f = &fieldStats{Graph: graph, Field: field}
			fields[[2]string{graph, field}] = f
		}
		f.Changes++
		f.Bytes += int64(n)
	}
	var logs []checkpoint.Log
	for info, err := range l.Logs(ctx, thread) {
		if err != nil {
			return s, err
		}
		logs = append(logs, info.Log)
		s.Logs, s.Records, s.Bytes = s.Logs+1, s.Records+info.Records, s.Bytes+info.Bytes
	}
	for _, log := range logs {
		for r, err := range store.Records(ctx, checkpoint.Query{Log: log, AllBranches: true}) {
			if err != nil {
				return s, err
			}
			if log.Namespace == "" || s.Graph == "" {
				s.Graph = r.Graph
			}
			if r.Sealed != nil {
				add(r.Graph, sealedField, len(r.Sealed.Data))
				continue
			}
			for _, c := range r.Changes {
				s.Changes += int64(len(c.Data))
				if len(c.Data) == 0 {
					continue // the task wrote nothing
				}
				var values map[string]json.RawMessage
				if err := json.Unmarshal(c.Data, &values); err != nil {
					return s, fmt.Errorf("record %s: changes of %q: %w: %w", r.ID, c.Node, checkpoint.ErrCorrupt, err)
				}
				for field, v := range values {
					add(r.Graph, field, len(v))
				}
			}
			if r.Snapshot != nil {
				s.Snapshots += int64(len(r.Snapshot.Values))
			}
			for _, t := range r.Tasks {
				s.Payloads += int64(len(t.Payload) + len(t.Overlay))
			}
		}
	}
	return s, nil
}
