package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/client"
)

// agent is an assistant, to one caller. It has no state of its own: what a task is and
// how far it is follows from the runs of the thread.
type agent struct {
	client    *client.Client
	assistant *client.Assistant
	push      *Push // nil: no notifications are sent
}

var _ a2asrv.RequestHandler = (*agent)(nil)

// The members of a run's metadata by which runs of tasks are known.
const (
	ofTask    = "a2a_task"
	ofMessage = "a2a_message"
)

// task is a task as it is found: the newest of its runs.
type task struct {
	thread string
	name   string // in the metadata of its runs
	run    *client.Run
	newest bool // no other task has begun on the thread since
}

// TaskInfo returns the IDs of the task and its context. A task's ID says which thread it
// is on, so that it is found without a table.
func (t *task) TaskInfo() proto.TaskInfo {
	return proto.TaskInfo{TaskID: proto.TaskID(t.thread + "." + t.name), ContextID: t.thread}
}

func refuse(kind error, format string, args ...any) error {
	return proto.NewError(kind, fmt.Sprintf(format, args...))
}

// told returns an error of the server as one of the protocol.
func told(err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) {
		return err
	}
	kind := proto.ErrInternalError
	switch {
	case errors.Is(err, client.ErrUnauthenticated):
		kind = proto.ErrUnauthenticated
	case errors.Is(err, client.ErrForbidden):
		kind = proto.ErrUnauthorized
	case errors.Is(err, client.ErrBusy), errors.Is(err, client.ErrConflict):
		kind = proto.ErrUnsupportedOperation
	case errors.Is(err, client.ErrNotFound), refused.Status >= 400 && refused.Status < 500:
		kind = proto.ErrInvalidParams
	}
	return refuse(kind, "%s", cmp.Or(refused.Message, err.Error()))
}

// tasks yields the runs of a thread that are the newest of their task, newest first.
func (a *agent) tasks(ctx context.Context, thread string) iter.Seq2[*task, error] {
	return func(yield func(*task, error) bool) {
		seen := map[string]bool{}
		first := true
		for run, err := range a.client.Runs(ctx, thread, client.RunSearch{}) {
			if err != nil {
				yield(nil, err)
				return
			}
			name, _ := run.Metadata[ofTask].(string)
			if name != "" && !seen[name] && run.AssistantID == a.assistant.ID {
				seen[name] = true
				if !yield(&task{thread: thread, name: name, run: run, newest: first}, nil) {
					return
				}
			}
			first = false
		}
	}
}

// find returns a task. Whatever keeps the caller from seeing it, it isn't found.
func (a *agent) find(ctx context.Context, id proto.TaskID) (*task, error) {
	unknown := refuse(proto.ErrTaskNotFound, "there is no task %.100q", id)
	thread, name, _ := strings.Cut(string(id), ".")
	if uuid.Validate(thread) != nil || uuid.Validate(name) != nil {
		return nil, unknown
	}
	for t, err := range a.tasks(ctx, thread) {
		if errors.Is(err, client.ErrNotFound) {
			return nil, unknown
		}
		if err != nil {
			return nil, told(err)
		}
		if t.name == name {
			return t, nil
		}
	}
	return nil, unknown
}

// tell sets the status of a task, which the newest run has led to.
func (t *task) tell(out *proto.Task, state proto.TaskState, parts ...*proto.Part) {
	at := t.run.UpdatedAt
	out.Status = proto.TaskStatus{State: state, Timestamp: &at}
	if len(parts) > 0 {
		out.Status.Message = proto.NewMessageForTask(proto.MessageRoleAgent, t, parts...)
		out.Status.Message.ID = t.run.ID // the same whenever it is told
	}
}

// view returns a task as the protocol has it.
func (a *agent) view(ctx context.Context, t *task) (*proto.Task, error) {
	info := t.TaskInfo()
	out := &proto.Task{ID: info.TaskID, ContextID: info.ContextID}
	status := func(state proto.TaskState, parts ...*proto.Part) (*proto.Task, error) {
		t.tell(out, state, parts...)
		return out, nil
	}
	switch t.run.Status {
	case client.RunPending:
		return status(proto.TaskStateSubmitted)
	case client.RunRunning:
		return status(proto.TaskStateWorking)
	}
	state, err := a.state(ctx, t)
	if err != nil {
		return nil, told(err)
	}
	if questions := state.Questions(); t.newest && len(questions) > 0 {
		return status(proto.TaskStateInputRequired, asked(questions)...)
	}
	var failed *client.RunError
	outcome, err := a.client.Join(ctx, t.thread, t.run.ID)
	switch {
	case errors.As(err, &failed):
		return status(proto.TaskStateFailed, proto.NewTextPart(failed.Error()))
	case err != nil:
		return nil, told(err)
	case t.run.Status == client.RunFailed || t.run.Status == client.RunTimeout:
		return status(proto.TaskStateFailed, proto.NewTextPart("the run has the status "+string(t.run.Status)))
	case t.run.Status == client.RunSuccess:
		values := state.Values
		if t.newest {
			values = outcome.Values // what the graph declares as its output
		}
		out.Artifacts = artifacts(values)
		return status(proto.TaskStateCompleted)
	}
	if t.newest && len(state.Next) > 0 {
		thread, err := a.client.Thread(ctx, t.thread)
		if err != nil {
			return nil, told(err)
		}
		if thread.Status == client.ThreadBusy { // it goes on by itself
			return status(proto.TaskStateWorking)
		}
	}
	return status(proto.TaskStateCanceled)
}

// state returns the thread's state at the end of a task.
func (a *agent) state(ctx context.Context, t *task) (*client.State, error) {
	if !t.newest {
		for s, err := range a.client.History(ctx, t.thread, client.HistoryQuery{Metadata: map[string]any{ofTask: t.name}, Limit: 1}) {
			return s, err
		}
		return &client.State{Values: json.RawMessage("{}")}, nil // it did not come to one
	}
	return a.client.State(ctx, t.thread, false)
}

// send does what a message asks for: begins a task, or answers what one asks. A message
// that was sent before is the task that it belongs to, and does nothing.
func (a *agent) send(ctx context.Context, req *proto.SendMessageRequest) (*task, error) {
	m := req.Message
	switch {
	case m == nil || m.ID == "" || len(m.Parts) == 0:
		return nil, refuse(proto.ErrInvalidParams, "a message needs a messageId and parts")
	case m.Role != proto.MessageRoleUser:
		return nil, refuse(proto.ErrInvalidParams, "a message to an agent has the role %s, not %.40q", proto.MessageRoleUser, m.Role)
	case req.Config != nil && req.Config.PushConfig != nil && a.push == nil:
		return nil, errNoPush
	case m.ContextID != "" && uuid.Validate(m.ContextID) != nil:
		return nil, refuse(proto.ErrInvalidParams, "the context %.100q is none of this agent's, nor a UUID to begin one with", m.ContextID)
	}
	t := &task{thread: m.ContextID, name: uuid.Must(uuid.NewV7()).String(), newest: true}
	r := client.RunRequest{IfBusy: client.BusyEnqueue, CreateThread: true}
	var open *task
	if m.TaskID != "" {
		var err error
		if open, err = a.find(ctx, m.TaskID); err != nil {
			return nil, err
		}
		if m.ContextID != "" && m.ContextID != open.thread {
			return nil, refuse(proto.ErrInvalidParams, "the task %s is of the context %s", m.TaskID, open.thread)
		}
		t.thread, t.name = open.thread, open.name
	}
	if t.thread == "" {
		t.thread = uuid.Must(uuid.NewV7()).String()
	} else if before, err := a.sent(ctx, t.thread, m.ID); err != nil || before != nil {
		return before, err
	}
	if open != nil {
		v, err := a.view(ctx, open)
		if err != nil {
			return nil, err
		}
		if v.Status.State != proto.TaskStateInputRequired {
			return nil, refuse(proto.ErrUnsupportedOperation, "the task is %s and asks nothing", v.Status.State)
		}
		state, err := a.client.State(ctx, t.thread, false)
		if err != nil {
			return nil, told(err)
		}
		answers, err := answersTo(state.Questions(), m.Parts)
		if err != nil {
			return nil, err
		}
		r = client.RunRequest{IfBusy: client.BusyReject, Command: &client.Command{Resume: answers}}
	} else {
		schemas, err := a.client.Schemas(ctx, a.assistant.ID)
		if err != nil {
			return nil, told(err)
		}
		if r.Input, err = input(schemas.Input, m); err != nil {
			return nil, err
		}
	}
	r.Assistant, r.Resumable, r.Subgraphs = a.assistant.ID, true, true
	r.Modes = []client.Mode{client.ModeMessages, client.ModeCustom}
	r.Metadata = map[string]any{ofTask: t.name, ofMessage: m.ID}
	if a.push != nil {
		r.Webhook = pushPath
	}
	var err error
	var added *proto.PushConfig
	if req.Config != nil && req.Config.PushConfig != nil { // before the run may have ended
		if added, err = a.push.add(ctx, t, req.Config.PushConfig); err != nil {
			return nil, err
		}
	}
	if t.run, err = a.client.Start(ctx, t.thread, r); err != nil {
		if added != nil {
			err = errors.Join(err, a.push.configs.Delete(ctx, added.TaskID, added.ID))
		}
		return nil, told(err)
	}
	return t, nil
}

// sent returns the task that a message of a thread belongs to; nil if it is new.
func (a *agent) sent(ctx context.Context, thread, message string) (*task, error) {
	var name string
	for run, err := range a.client.Runs(ctx, thread, client.RunSearch{}) {
		if errors.Is(err, client.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, told(err)
		}
		if run.Metadata[ofMessage] == message && run.AssistantID == a.assistant.ID {
			name, _ = run.Metadata[ofTask].(string)
			break
		}
	}
	if name == "" {
		return nil, nil
	}
	return a.find(ctx, proto.TaskID(thread+"."+name))
}

// SendMessage implements the method: it answers when the run has ended, unless the
// caller doesn't want to wait.
func (a *agent) SendMessage(ctx context.Context, req *proto.SendMessageRequest) (proto.SendMessageResult, error) {
	t, err := a.send(ctx, req)
	if err != nil {
		return nil, err
	}
	if req.Config == nil || !req.Config.ReturnImmediately {
		var failed *client.RunError
		if _, err := a.client.Join(ctx, t.thread, t.run.ID); err != nil && !errors.As(err, &failed) {
			return nil, told(err)
		}
	}
	return a.again(ctx, t)
}

// again returns a task as it is now.
func (a *agent) again(ctx context.Context, t *task) (*proto.Task, error) {
	t, err := a.find(ctx, t.TaskInfo().TaskID)
	if err != nil {
		return nil, err
	}
	return a.view(ctx, t)
}

// SendStreamingMessage implements the method. A caller who leaves ends nothing.
func (a *agent) SendStreamingMessage(ctx context.Context, req *proto.SendMessageRequest) iter.Seq2[proto.Event, error] {
	return func(yield func(proto.Event, error) bool) {
		t, err := a.send(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		a.follow(ctx, t, yield)
	}
}

// SubscribeToTask implements the method: it tells how far the task is, and what the run
// that is at work has told and tells.
func (a *agent) SubscribeToTask(ctx context.Context, req *proto.SubscribeToTaskRequest) iter.Seq2[proto.Event, error] {
	return func(yield func(proto.Event, error) bool) {
		t, err := a.find(ctx, req.ID)
		if err != nil {
			yield(nil, err)
			return
		}
		a.follow(ctx, t, yield, terminal)
	}
}

// terminal refuses to follow what has ended, as the standard has it.
func terminal(t *proto.Task) error {
	if t.Status.State.Terminal() {
		return refuse(proto.ErrUnsupportedOperation, "the task is %s: nothing more comes", t.Status.State)
	}
	return nil
}

// follow tells of a task until its newest run has ended.
func (a *agent) follow(ctx context.Context, t *task, yield func(proto.Event, error) bool, checks ...func(*proto.Task) error) {
	now, err := a.view(ctx, t)
	for _, check := range checks {
		if err == nil {
			err = check(now)
		}
	}
	if err != nil {
		yield(nil, err)
		return
	}
	if !yield(now, nil) || t.run.Status.Ended() {
		return
	}
	begun := map[proto.ArtifactID]bool{}
	for ev, err := range a.client.JoinStream(ctx, t.thread, t.run.ID, client.Join{}) {
		var failed *client.RunError
		if errors.As(err, &failed) {
			break // which the status tells
		}
		if err != nil {
			yield(nil, told(err))
			return
		}
		if e := event(t, ev, begun); e != nil && !yield(e, nil) {
			return
		}
	}
	end, err := a.again(ctx, t)
	if err != nil {
		yield(nil, err)
		return
	}
	for _, one := range end.Artifacts {
		e := proto.NewArtifactUpdateEvent(t, one.ID, one.Parts...)
		e.Append, e.LastChunk, e.Artifact.Name = false, true, one.Name
		if !yield(e, nil) {
			return
		}
	}
	e := proto.NewStatusUpdateEvent(t, end.Status.State, end.Status.Message)
	e.Status.Timestamp = end.Status.Timestamp
	yield(e, nil)
}

// GetTask implements the method.
func (a *agent) GetTask(ctx context.Context, req *proto.GetTaskRequest) (*proto.Task, error) {
	t, err := a.find(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	return a.view(ctx, t)
}

// CancelTask implements the method. A task that asks is given up with its questions.
func (a *agent) CancelTask(ctx context.Context, req *proto.CancelTaskRequest) (*proto.Task, error) {
	t, err := a.find(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	now, err := a.view(ctx, t)
	if err != nil {
		return nil, err
	}
	if now.Status.State.Terminal() {
		return nil, refuse(proto.ErrTaskNotCancelable, "the task is %s", now.Status.State)
	}
	if t.run.Status.Ended() { // it waits
		_, err = a.client.UpdateState(ctx, t.thread, client.Update{AsNode: "__end__"})
	} else if err = a.client.Cancel(ctx, t.thread, t.run.ID, true); errors.Is(err, client.ErrConflict) || errors.Is(err, client.ErrNotFound) {
		err = nil // it has just ended
	}
	if err != nil {
		return nil, told(err)
	}
	now, err = a.again(ctx, t)
	if err == nil && now.Status.State != proto.TaskStateCanceled {
		return nil, refuse(proto.ErrTaskNotCancelable, "the task is %s", now.Status.State)
	}
	return now, err
}

// ListTasks implements the method: of a context, or of the 1,000 threads that changed
// last; newest first.
func (a *agent) ListTasks(ctx context.Context, req *proto.ListTasksRequest) (*proto.ListTasksResponse, error) {
	size := cmp.Or(req.PageSize, 50)
	offset, err := strconv.Atoi(cmp.Or(req.PageToken, "0"))
	if size < 1 || size > 100 || err != nil || offset < 0 {
		return nil, refuse(proto.ErrInvalidParams, "pageSize must be between 1 and 100, and pageToken one that a page has given")
	}
	threads := []string{req.ContextID}
	if req.ContextID == "" {
		threads = nil
		s := client.ThreadSearch{Metadata: map[string]any{"assistant_id": a.assistant.ID}, Select: []string{"thread_id"}, SortBy: "updated_at", Limit: 1000}
		for t, err := range a.client.Threads(ctx, s) {
			if err != nil {
				return nil, told(err)
			}
			threads = append(threads, t.ID)
		}
	} else if uuid.Validate(req.ContextID) != nil {
		threads = nil
	}
	var all []*task
	for _, thread := range threads {
		for t, err := range a.tasks(ctx, thread) {
			if errors.Is(err, client.ErrNotFound) {
				break // there is none, or none any more
			}
			if err != nil {
				return nil, told(err)
			}
			if req.StatusTimestampAfter == nil || t.run.UpdatedAt.After(*req.StatusTimestampAfter) {
				all = append(all, t)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y *task) int { return y.run.UpdatedAt.Compare(x.run.UpdatedAt) })
	out := &proto.ListTasksResponse{Tasks: []*proto.Task{}}
	for _, t := range all {
		wanted := out.TotalSize >= offset && len(out.Tasks) < size
		if wanted || req.Status != "" {
			v, err := a.view(ctx, t)
			if err != nil {
				return nil, err
			}
			if req.Status != "" && v.Status.State != req.Status {
				continue
			}
			if wanted {
				if !req.IncludeArtifacts {
					v.Artifacts = nil
				}
				out.Tasks = append(out.Tasks, v)
			}
		}
		out.TotalSize++
	}
	out.PageSize = len(out.Tasks)
	if next := offset + len(out.Tasks); len(out.Tasks) > 0 && next < out.TotalSize {
		out.NextPageToken = strconv.Itoa(next)
	}
	return out, nil
}

// GetExtendedAgentCard is refused: there is one card.
func (a *agent) GetExtendedAgentCard(context.Context, *proto.GetExtendedAgentCardRequest) (*proto.AgentCard, error) {
	return nil, proto.NewError(proto.ErrUnsupportedOperation, "there is no extended card")
}
