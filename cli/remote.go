package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
)

// remote is a server of LangGraph's protocol.
type remote struct {
	a    *app
	c    *client.Client
	lost atomic.Pointer[func(error, time.Duration)] // is told of connections that are tried again
	met  bool
}

func (r *remote) label() string { return r.c.URL() }
func (r *remote) arg() string   { return r.a.placeArg() }

func (r *remote) noteLost(err error, wait time.Duration) {
	if f := r.lost.Load(); f != nil {
		(*f)(err, wait)
	}
}

// open sees to it that the server is one.
func (r *remote) open(ctx context.Context, _ bool) error {
	if r.met {
		return nil
	}
	if _, err := r.c.Info(ctx); err != nil {
		var odd *client.ProtocolError
		if errors.As(err, &odd) {
			return Hint(err, "check the address: the server's own, without the path of a page such as /studio")
		}
		return r.explain(err)
	}
	r.met = true
	return nil
}

// malformed reports whether a server could not make sense of what it was sent.
func malformed(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && (refused.Status == http.StatusUnprocessableEntity || refused.Status == http.StatusBadRequest)
}

// explain says what to do about an error of the server.
func (r *remote) explain(err error) error {
	var gone *client.UnreachableError
	var lost *client.LostError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrUnauthenticated):
		return Hint(err, "set %s to the server's API key", keyEnv)
	case errors.As(err, &lost) && lost.Thread != "":
		return Hint(err, "when the server is there again, see what became of it:\n  %s state%s --thread %s", r.a.name, r.arg(), quote(lost.Thread))
	case errors.As(err, &gone) && !errors.Is(err, http.ErrSchemeMismatch) && !errors.As(err, new(*tls.CertificateVerificationError)):
		return Hint(err, "a program with graphs is served by its command serve")
	case errors.Is(err, client.ErrBusy):
		return Hint(err, "another run has the thread: wait until it has ended")
	case malformed(err):
		return &usageError{err, ""}
	}
	return err
}

// fit adds to an error about a thread's ID what such IDs are.
func (r *remote) fit(err error, thread string) error {
	if malformed(err) && !isUUID(thread) {
		return &usageError{fmt.Errorf("the server has no thread %q, and makes none: those that it makes have UUIDs", thread), "leave --thread out for a new thread; threads lists those that are there"}
	}
	return r.explain(err)
}

func isUUID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// own reports whether an assistant is the one that its graph has of itself.
func own(as *client.Assistant) bool {
	by, _ := as.Metadata["created_by"].(string)
	return by == "system"
}

// at returns an assistant as a target. One that is its graph's own goes by the
// graph's name.
func (r *remote) at(as *client.Assistant) target {
	name := as.ID
	if own(as) {
		name = as.GraphID
	}
	return &remoteGraph{r: r, as: as, about: about{name: name, own: as.GraphID, description: as.Description}}
}

func (r *remote) assistants(ctx context.Context) ([]*client.Assistant, error) {
	var list []*client.Assistant
	for as, err := range r.c.Assistants(ctx, client.AssistantSearch{}) {
		if err != nil {
			return nil, r.explain(err)
		}
		list = append(list, as)
	}
	return list, nil
}

func (r *remote) graphs(ctx context.Context) ([]graphRow, error) {
	if err := r.open(ctx, false); err != nil {
		return nil, err
	}
	all, err := r.assistants(ctx)
	if err != nil {
		return nil, err
	}
	slices.Reverse(all) // oldest first: in the order in which a server has its graphs
	list := []graphRow{}
	for _, as := range all {
		t := r.at(as)
		row := graphRow{Name: t.info().name, Description: as.Description, Nodes: []string{}}
		if !own(as) && as.Name != "" {
			row.Description = strings.TrimPrefix(row.Description+", ", ", ") + fmt.Sprintf("assistant %q of graph %s", as.Name, as.GraphID)
		}
		d, err := r.c.Drawing(ctx, as.ID, 0)
		if err != nil {
			return nil, r.explain(err)
		}
		for _, n := range d.Nodes {
			if n.ID != draw.StartID && n.ID != draw.EndID {
				row.Nodes = append(row.Nodes, n.ID)
			}
		}
		list = append(list, row)
	}
	return list, nil
}

func (r *remote) graph(ctx context.Context, name string) (target, error) {
	if err := r.open(ctx, false); err != nil {
		return nil, err
	}
	as, err := r.c.Assistant(ctx, name)
	if err == nil {
		return r.at(as), nil
	}
	if !malformed(err) && !errors.Is(err, client.ErrNotFound) {
		return nil, r.explain(err)
	}
	all, err := r.assistants(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, as := range all {
		t := r.at(as)
		if t.info().name == name || as.Name == name {
			return t, nil
		}
		names = append(names, t.info().name)
	}
	list := "graphs: " + strings.Join(names, ", ")
	if len(names) == 0 {
		list = "it has no graphs at all"
	}
	return nil, unknown(fmt.Errorf("%s has no graph %q", r.label(), name), name, names, list)
}

func (r *remote) thread(ctx context.Context, id string) (of ownership, err error) {
	th, err := r.c.Thread(ctx, id)
	if err != nil {
		return of, r.fit(err, id)
	}
	of.own, of.name = th.GraphID(), th.GraphID()
	of.graph = func() (target, error) {
		name, _ := th.Metadata["assistant_id"].(string)
		if name = cmp.Or(name, of.name); name == "" {
			return nil, &usageError{fmt.Errorf("thread %q has had no run, so that its graph is not known", id), "name the graph"}
		}
		return r.graph(ctx, name)
	}
	return of, nil
}

func (r *remote) newest(ctx context.Context, n int) (names []string, err error) {
	for th, err := range r.c.Threads(ctx, client.ThreadSearch{Select: []string{"thread_id"}, Limit: n}) {
		if err != nil {
			return names, r.explain(err)
		}
		names = append(names, th.ID)
	}
	return names, nil
}

// newThread makes an ID alone: the thread comes with its first run, if that is not
// refused.
func (r *remote) newThread(context.Context, target) (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}

// statusOf says of a thread what the commands say. A server does not tell sleeping
// threads from asking ones.
func statusOf(s client.ThreadStatus) string {
	switch s {
	case client.ThreadIdle:
		return "done"
	case client.ThreadBusy:
		return "pending"
	case client.ThreadError:
		return "failed"
	}
	return string(s)
}

func (r *remote) threads(ctx context.Context, q threadQuery) (list []threadRow, more bool, err error) {
	if err := r.open(ctx, false); err != nil {
		return nil, false, err
	}
	search := client.ThreadSearch{Select: []string{"thread_id", "status", "metadata", "created_at", "updated_at"}, SortBy: "updated_at"}
	if q.graph != "" {
		t, err := r.graph(ctx, q.graph)
		if err != nil {
			return nil, false, err
		}
		search.Metadata = map[string]any{"graph_id": t.info().own}
		if rg := t.(*remoteGraph); !own(rg.as) {
			search.Metadata["assistant_id"] = rg.as.ID
		}
	}
	for _, kv := range q.metadata {
		if search.Metadata == nil {
			search.Metadata = map[string]any{}
		}
		search.Metadata[kv[0]] = kv[1]
	}
	for _, s := range []client.ThreadStatus{client.ThreadIdle, client.ThreadBusy, client.ThreadError, client.ThreadInterrupted} {
		if statusOf(s) == q.status {
			search.Status = s
		}
	}
	if q.status == "waiting" {
		return nil, false, Usage("--status waiting works on a store: a server says interrupted of these threads")
	}
	if q.limit > 0 && q.prefix == "" {
		search.Limit = q.limit + 1
	}
	if q.stuck {
		return r.stuck(ctx, q, search)
	}
	for th, err := range r.c.Threads(ctx, search) {
		if err != nil {
			return list, more, r.explain(err)
		}
		if !strings.HasPrefix(th.ID, q.prefix) {
			continue
		}
		if q.limit > 0 && len(list) == q.limit {
			return list, true, nil
		}
		list = append(list, rowOf(th))
	}
	return list, false, nil
}

func rowOf(th *client.Thread) threadRow {
	return threadRow{
		Thread: th.ID, Graph: th.GraphID(), Status: statusOf(th.Status), CreatedAt: th.CreatedAt, UpdatedAt: th.UpdatedAt,
		Metadata: texts(th.Metadata),
	}
}

// overdue is for how long no run has taken a thread that is due, as in the studio.
const overdue = time.Minute

// stuck returns the threads of a search whose run failed, or that are due and taken by nobody.
// Those whose run died a server goes on with itself.
func (r *remote) stuck(ctx context.Context, q threadQuery, search client.ThreadSearch) (list []threadRow, more bool, err error) {
	failed, late := search, search
	failed.Status, failed.Select = client.ThreadError, append(slices.Clone(search.Select), "error")
	late.DueBefore, late.Select = time.Now().Add(-overdue), append(slices.Clone(search.Select), "due_at")
	at := map[string]int{}
	add := func(th *client.Thread, why string) {
		if !strings.HasPrefix(th.ID, q.prefix) {
			return
		}
		i, ok := at[th.ID]
		if !ok {
			i, at[th.ID] = len(list), len(list)
			list = append(list, rowOf(th))
		}
		list[i].Stuck = append(list[i].Stuck, why)
	}
	if q.status == "" || q.status == statusOf(failed.Status) {
		for th, err := range r.c.Threads(ctx, failed) {
			if err != nil {
				return nil, false, r.explain(err)
			}
			why := "its run failed"
			if f := th.Failure; f != nil {
				why += ": " + cmp.Or(f.Message, f.Name)
			}
			add(th, why)
		}
	}
	for th, err := range r.c.Threads(ctx, late) {
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusNotImplemented {
			break // its store can't tell
		}
		if err != nil {
			return nil, false, r.explain(err)
		}
		if !th.DueAt.IsZero() { // or else the server doesn't know the search
			add(th, "it has been due since "+when(th.DueAt)+", and no run has taken it")
		}
	}
	slices.SortStableFunc(list, func(a, b threadRow) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	if q.limit > 0 && len(list) > q.limit {
		return list[:q.limit], true, nil
	}
	return list, false, nil
}

// texts returns metadata as those of a store are: texts, where other JSON is
// marked. Some entries are left out.
func texts(metadata map[string]any, without ...string) map[string]string {
	var out map[string]string
	for k, v := range metadata {
		if slices.Contains(without, k) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		if s, ok := v.(string); ok {
			out[k] = s
		} else {
			data, _ := json.Marshal(v) // was JSON
			out["json:"+k] = string(data)
		}
	}
	return out
}

func (r *remote) copyThread(ctx context.Context, from, to string) (string, error) {
	if to != "" {
		return "", &usageError{errors.New("a server chooses the ID of a copy"),
			fmt.Sprintf("copy the thread, and go on with the ID that is shown: %s copy%s %s", r.a.name, r.arg(), quote(from))}
	}
	if _, err := known(ctx, r, from); err != nil {
		return "", err
	}
	th, err := r.c.CopyThread(ctx, from)
	if err != nil {
		return "", r.explain(err)
	}
	return th.ID, nil
}

func (r *remote) deleteThread(ctx context.Context, thread string, _ bool) error { // a server stops the runs itself
	return r.explain(r.c.DeleteThread(ctx, thread))
}

// remoteGraph is an assistant of a server.
type remoteGraph struct {
	r     *remote
	as    *client.Assistant
	about about
}

func (t *remoteGraph) info() about { return t.about }

func (t *remoteGraph) check(graph.JSONKind, json.RawMessage) error { return nil } // the server does

func (t *remoteGraph) talks(ctx context.Context) (bool, error) {
	s, err := t.r.c.Schemas(ctx, t.as.ID)
	if err != nil {
		var refused *client.Error
		if errors.As(err, &refused) && refused.Status != http.StatusUnauthorized { // it has none
			return true, nil
		}
		return false, t.r.explain(err)
	}
	if s == nil || len(s.State) == 0 {
		return true, nil
	}
	return hasMessages(s.State), nil
}

// at names a checkpoint, nil the newest.
func at(id string) *client.Checkpoint {
	if id == "" {
		return nil
	}
	return &client.Checkpoint{ID: id}
}

// request turns a call into one of the server.
func (t *remoteGraph) request(c call) (client.RunRequest, error) {
	r := client.RunRequest{
		Assistant: t.as.ID, Checkpoint: at(c.at), CreateThread: true, Subgraphs: true, InterruptBefore: c.before, InterruptAfter: c.after,
		IfBusy: client.BusyReject, Durability: client.Durability(c.durability), CancelOnLeave: true,
	}
	if c.concurrency != 0 {
		return r, Usage("--concurrency is for stores: a server has limits of its own")
	}
	r.Config.RecursionLimit = c.maxSteps
	if c.config != nil {
		r.Context = c.config
	}
	for _, kv := range c.metadata {
		if r.Metadata == nil {
			r.Metadata = map[string]any{}
		}
		r.Metadata[kv[0]] = kv[1]
	}
	for _, m := range modes {
		if m.wire != "" && c.modes&m.mode == m.mode {
			r.Modes = append(r.Modes, m.wire)
		}
	}
	// Questions come with updates.
	if c.modes&(graph.ModeUpdates&graph.ModeValues) != 0 && !slices.Contains(r.Modes, client.ModeUpdates) {
		r.Modes = append(r.Modes, client.ModeUpdates)
	}
	return r, nil
}

func (t *remoteGraph) start(ctx context.Context, c call, input json.RawMessage) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		r, err := t.request(c)
		if err == nil && input != nil {
			// An input begins a new turn; added to what is pending, it is an update.
			pending := false
			if !c.restart {
				pending, err = t.pending(ctx, c)
			}
			if pending {
				r.Command = &client.Command{Update: input}
			} else {
				r.Input = input
			}
		}
		if err != nil {
			yield(event{}, err)
			return
		}
		t.run(ctx, c, r, yield)
	}
}

// pending reports whether a thread has something left to do.
func (t *remoteGraph) pending(ctx context.Context, c call) (bool, error) {
	s, err := t.read(ctx, c.thread, c.at)
	if errors.Is(err, client.ErrNotFound) && c.at == "" {
		return false, nil
	}
	return err == nil && len(s.Next) > 0, t.r.fit(err, c.thread)
}

func (t *remoteGraph) resume(ctx context.Context, c call, answer any, update json.RawMessage) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		r, err := t.request(c)
		if err == nil {
			var pending bool
			if pending, err = t.pending(ctx, c); err == nil && !pending {
				err = Hint(fmt.Errorf("nothing to resume: thread %q has ended", c.thread), "it may have been answered elsewhere")
			}
		}
		if err != nil {
			yield(event{}, err)
			return
		}
		r.Command = &client.Command{Resume: answer}
		if update != nil {
			r.Command.Update = update
		}
		if answers, ok := answer.(graph.Answers); ok && len(answers) == 0 || answer == nil {
			r.Command.Resume = nil // breakpoints alone: it goes on
		}
		t.run(ctx, c, r, yield)
	}
}

// run runs something and yields what happens.
func (t *remoteGraph) run(ctx context.Context, c call, r client.RunRequest, yield func(event, error) bool) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("the run took longer than %v: %w", c.timeout, context.DeadlineExceeded))
		defer cancel()
	}
	if c.lost != nil {
		t.r.lost.Store(&c.lost)
		defer t.r.lost.Store(nil)
	}
	created := make(chan string, 1)
	r.Created = func(_, run string) { created <- run }
	over, stopped := make(chan struct{}), make(chan error, 1)
	go func() { // stops the run when it is to be drained
		var failed error
		defer func() { stopped <- failed }()
		select {
		case <-c.drain:
		case <-over:
			return
		}
		failed = console.ErrStopped
		select {
		case run := <-created:
			if err := t.r.c.Cancel(context.WithoutCancel(ctx), c.thread, run, false); err != nil && !errors.Is(err, client.ErrNotFound) {
				failed = fmt.Errorf("%w, but the server did not stop the run: %w", failed, err)
			}
		case <-over:
		}
	}()
	d := eventDecoder{graph: t.about.name, thread: c.thread}
	left := false
	for ev, err := range t.r.c.Stream(ctx, c.thread, r) {
		if err != nil {
			close(over)
			if failed := <-stopped; failed != nil && ctx.Err() == nil {
				err = failed
			}
			yield(event{}, t.r.fit(err, c.thread))
			return
		}
		for _, e := range d.decode(ev) {
			if left = !yield(e, nil); left {
				break
			}
		}
		if left {
			break
		}
	}
	close(over)
	if failed := <-stopped; failed != nil && !left {
		yield(event{}, failed)
	}
}

// read asks for a thread at a checkpoint, or as it is.
func (t *remoteGraph) read(ctx context.Context, thread, at string) (*client.State, error) {
	if at == "" {
		return t.r.c.State(ctx, thread, false)
	}
	if !isUUID(at) { // which servers may take amiss
		return nil, &client.Error{Method: http.MethodGet, Path: "/threads/" + thread + "/state/" + at, Status: http.StatusNotFound}
	}
	return t.r.c.StateAt(ctx, thread, client.Checkpoint{ID: at}, false)
}

func (t *remoteGraph) state(ctx context.Context, thread, at string) (*snapshot, error) {
	s, err := t.read(ctx, thread, at)
	if err != nil {
		return nil, t.r.fit(err, thread)
	}
	out := t.show(thread, s)
	for before := s; before.Parent.BeforeInput(); { // one input after the other was given instead
		if before, err = t.read(ctx, thread, before.Parent.ID); err != nil {
			return nil, t.r.fit(err, thread)
		}
		_, out.Parent = origin(before)
	}
	if out.Status == "" {
		out.Status = "pending"
		if at == "" {
			th, err := t.r.c.Thread(ctx, thread)
			if err != nil {
				return nil, t.r.explain(err)
			}
			if th.Status == client.ThreadInterrupted || th.Status == client.ThreadError {
				out.Status = statusOf(th.Status)
			}
		}
	}
	return out, nil
}

// origin returns why a checkpoint was written and its parent, as a store has them: one that
// took an input in is there what the server shows as two.
func origin(s *client.State) (source, parent string) {
	source = s.Source()
	if s.Parent == nil {
		return source, ""
	}
	if s.Parent.BeforeInput() && source == string(checkpoint.SourceLoop) {
		source = string(checkpoint.SourceInput)
	}
	return source, s.Parent.ID
}

// show returns a state as the commands print it. The status is empty where the
// thread's own has to tell.
func (t *remoteGraph) show(thread string, s *client.State) *snapshot {
	out := &snapshot{
		Graph: t.about.name, Thread: thread, Step: s.Step(), State: s.Values, Next: append([]string{}, s.Next...),
		Interrupts: []question{}, Metadata: texts(s.Metadata, "source", "step", "parents"),
	}
	if len(out.State) == 0 {
		out.State = json.RawMessage("null")
	}
	if s.Checkpoint != nil {
		out.Checkpoint = s.Checkpoint.ID
	}
	out.Source, out.Parent = origin(s)
	if !s.CreatedAt.IsZero() {
		out.CreatedAt = &s.CreatedAt
	}
	failed := false
	seen := map[string]bool{}
	for _, ts := range s.Tasks {
		one := task{ID: ts.ID, Node: ts.Name, Status: "waiting", Error: string(ts.Error)}
		for _, q := range ts.Interrupts {
			one.Status = "interrupted"
			seen[q.ID] = true
			out.Interrupts = append(out.Interrupts, asked(q, ts.Name))
		}
		if ts.Error != "" {
			one.Status, failed = "failed", true
		}
		out.Tasks = append(out.Tasks, one)
	}
	for _, q := range s.Interrupts {
		if !seen[q.ID] {
			out.Interrupts = append(out.Interrupts, asked(q, strings.Join(s.Next, ", ")))
		}
	}
	switch {
	case len(out.Interrupts) > 0:
		out.Status = "interrupted"
	case len(s.Next) == 0:
		out.Status = "done"
	case failed:
		out.Status = "failed"
	}
	return out
}

func asked(q client.Interrupt, node string) question {
	return question{ID: q.ID, Key: q.Key, Node: node, When: "inside", Value: q.Value, Schema: q.Schema}
}

func (t *remoteGraph) update(ctx context.Context, e edit) (*snapshot, error) {
	if e.metadata != nil {
		return nil, Usage("--metadata is for stores: an edit over a server has none")
	}
	if _, err := t.r.c.Thread(ctx, e.thread); errors.Is(err, client.ErrNotFound) {
		_, err := t.r.c.CreateThread(ctx, client.NewThread{ID: e.thread, IfExists: "do_nothing", Metadata: map[string]any{"graph_id": t.about.own}})
		if err != nil {
			return nil, t.r.fit(err, e.thread)
		}
	} else if err != nil {
		return nil, t.r.fit(err, e.thread)
	}
	if e.at != "" && !isUUID(e.at) {
		_, err := t.read(ctx, e.thread, e.at)
		return nil, err
	}
	u := client.Update{AsNode: e.node, Checkpoint: at(e.at)}
	if e.values != nil {
		u.Values = e.values
	}
	if _, err := t.r.c.UpdateState(ctx, e.thread, u); err != nil {
		return nil, t.r.fit(err, e.thread)
	}
	return t.state(ctx, e.thread, "")
}

// fork makes a branch by an edit that edits nothing, which is how the protocol has
// it.
func (t *remoteGraph) fork(ctx context.Context, thread, at string) (*snapshot, error) {
	return t.update(ctx, edit{thread: thread, at: at})
}

// history returns checkpoints. The protocol has those of all branches, and of each
// what is next: what ran follows from its parent.
func (t *remoteGraph) history(ctx context.Context, q historyQuery) ([]*entry, error) {
	want := q.at // on the branch
	if !q.all && want == "" {
		s, err := t.read(ctx, q.thread, "")
		if err != nil {
			return nil, t.r.fit(err, q.thread)
		}
		if s.Checkpoint != nil {
			want = s.Checkpoint.ID
		}
	}
	out := []*entry{}
	found := q.at == ""
	ran := map[string][]*entry{}  // what waits for its parent, by the parent
	took := map[string][]*entry{} // likewise, after what is before an input
	add := func(s *client.State) (enough bool) {
		if s.Checkpoint.BeforeInput() {
			_, parent := origin(s)
			waiting := took[s.Checkpoint.ID]
			delete(took, s.Checkpoint.ID)
			for _, e := range waiting {
				e.Parent = parent
			}
			if s.Parent.BeforeInput() { // in whose stead it was given
				took[parent] = append(took[parent], waiting...)
			}
			if want == s.Checkpoint.ID {
				want = parent
			}
			return q.limit > 0 && !q.oldest && len(out) == q.limit && len(ran)+len(took) == 0
		}
		if found = found || s.Checkpoint != nil && s.Checkpoint.ID == q.at; !found || s.Checkpoint == nil {
			return false
		}
		for _, e := range ran[s.Checkpoint.ID] {
			e.Nodes = s.Next
		}
		delete(ran, s.Checkpoint.ID)
		full := q.limit > 0 && !q.oldest && len(out) == q.limit
		if full {
			return len(ran)+len(took) == 0
		}
		source, parent := origin(s)
		if !q.all {
			// The newest state may lie inside of a superstep, and is then not listed.
			if s.Checkpoint.ID != want && len(out) > 0 {
				return false
			}
			want = parent
		}
		if q.source != "" && source != q.source {
			return false
		}
		e := &entry{
			Checkpoint: s.Checkpoint.ID, Parent: parent, Step: s.Step(), Source: source, Next: s.Next, CreatedAt: s.CreatedAt,
			Metadata: texts(s.Metadata, "source", "step", "parents"),
			fold:     func(context.Context) (json.RawMessage, error) { return s.Values, nil },
		}
		out = append(out, e)
		if s.Parent.BeforeInput() {
			took[parent] = append(took[parent], e)
		} else if e.Source == "loop" && parent != "" {
			ran[parent] = append(ran[parent], e)
		}
		return false
	}
	for s, err := range t.r.c.History(ctx, q.thread, client.HistoryQuery{}) {
		if err != nil {
			return nil, t.r.fit(err, q.thread)
		}
		if add(s) {
			break
		}
	}
	if !found { // it lies inside of a superstep, or isn't there
		s, err := t.read(ctx, q.thread, q.at)
		if err != nil {
			return nil, err
		}
		found = true
		add(s)
	}
	if q.oldest {
		slices.Reverse(out)
		if q.limit > 0 && len(out) > q.limit {
			out = out[:q.limit]
		}
	}
	return out, nil
}

func (t *remoteGraph) drawing(ctx context.Context, depth int, thread string) (*draw.Graph, error) {
	d, err := t.r.c.Drawing(ctx, t.as.ID, depth)
	if err != nil {
		return nil, t.r.explain(err)
	}
	status, visits := map[string]draw.Status{}, map[string]int{}
	if thread != "" {
		entries, err := t.history(ctx, historyQuery{thread: thread})
		if err != nil {
			return nil, err
		}
		s, err := t.state(ctx, thread, "")
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			for _, n := range e.Nodes {
				status[n] = draw.StatusVisited
				visits[n]++
			}
		}
		for _, n := range s.Next {
			status[n] = draw.StatusCurrent
		}
		for _, q := range s.Interrupts {
			status[q.Node] = draw.StatusInterrupted
		}
		for _, ts := range s.Tasks {
			if ts.Status == "failed" {
				status[ts.Node] = draw.StatusFailed
			}
		}
	}
	g := &draw.Graph{Name: t.about.name}
	for _, n := range d.Nodes {
		node := draw.Node{ID: n.ID, Status: status[n.ID], Visits: visits[n.ID]}
		var data struct{ Name, Description string }
		if json.Unmarshal(n.Data, &data) == nil {
			node.Description = data.Description
			if data.Name != "" && data.Name != n.ID && !strings.HasSuffix(n.ID, ":"+data.Name) {
				node.Label = data.Name
			}
		}
		switch n.ID {
		case draw.StartID:
			node.Kind = draw.KindStart
		case draw.EndID:
			node.Kind = draw.KindEnd
		}
		g.Nodes = append(g.Nodes, node)
	}
	for _, e := range d.Edges {
		one := draw.Edge{From: e.Source, To: e.Target, Label: e.Data}
		if e.Conditional {
			one.Kind = draw.EdgeConditional
		}
		g.Edges = append(g.Edges, one)
	}
	return g, nil
}
