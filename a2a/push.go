package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/memory"
)

// Push sends notifications to the addresses that callers give for a task. It is made by
// [NewPush], given to [Options], and its Webhooks to the server that the handler serves.
type Push struct {
	configs configs
	sender  push.Sender
}

// PushOptions are settings of a [Push]. The zero value is fine.
type PushOptions struct {
	// AllowPrivate lets notifications go to addresses that are not of the public
	// internet, such as the machine itself.
	AllowPrivate bool

	Timeout time.Duration // of a call; 0 means 30 s
}

// NewPush keeps where to send in a store of the caller's, who closes it: in the
// namespace "a2a_push". What receivers are to be sent as credentials stands there, so the
// store must not be one that clients can read.
func NewPush(store memory.Store, o PushOptions) *Push {
	return &Push{configs{store}, push.NewHTTPPushSender(&push.HTTPSenderConfig{Timeout: o.Timeout, FailOnError: true, AllowPrivateNetworks: o.AllowPrivate})}
}

// pushPath is the webhook of the runs of tasks.
const pushPath = "/a2a/push"

// Webhooks answers the webhooks of runs, for server.LocalWebhooks: when a task is
// completed, fails or asks, all addresses are sent the task. One that can't be reached
// has the server call again, as it does with webhooks; others may be sent the task twice
// then. What was sent the end of a task is forgotten. Other webhooks are not found.
func (p *Push) Webhooks() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pushPath, func(w http.ResponseWriter, r *http.Request) {
		if err := p.ended(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	return mux
}

// ended sends what the server tells of a run that has ended.
func (p *Push) ended(r *http.Request) error {
	var run struct {
		client.Run
		Values json.RawMessage                  `json:"values"`
		Error  *struct{ Error, Message string } `json:"error"`
	}
	if err := json.NewDecoder(r.Body).Decode(&run); err != nil {
		return err
	}
	name, _ := run.Metadata[ofTask].(string)
	t := &task{thread: run.ThreadID, name: name, run: &run.Run}
	id := t.TaskInfo().TaskID
	all, err := p.configs.List(r.Context(), id)
	if err != nil || len(all) == 0 {
		return err
	}
	var asks struct {
		Questions []client.Interrupt `json:"__interrupt__"`
	}
	_ = json.Unmarshal(run.Values, &asks) // values that are no object ask nothing
	out := &proto.Task{ID: id, ContextID: run.ThreadID}
	switch {
	case run.Error != nil:
		failed := client.RunError{Name: run.Error.Error, Message: run.Error.Message}
		t.tell(out, proto.TaskStateFailed, proto.NewTextPart(failed.Error()))
	case len(asks.Questions) > 0:
		t.tell(out, proto.TaskStateInputRequired, asked(asks.Questions)...)
	case run.Status == client.RunSuccess:
		out.Artifacts = artifacts(run.Values)
		t.tell(out, proto.TaskStateCompleted)
	default: // it was stopped, or goes on by itself
		return nil
	}
	var errs []error
	for _, c := range all {
		err := p.sender.SendPush(r.Context(), c, out)
		if err == nil && out.Status.State.Terminal() { // it was the last
			err = p.configs.Delete(r.Context(), id, c.ID)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// add checks and keeps an address.
func (p *Push) add(ctx context.Context, t *task, c *proto.PushConfig) (*proto.PushConfig, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, refuse(proto.ErrInvalidParams, "notifications are sent to a URL of http or https, not to %.200q", c.URL)
	}
	if strings.ContainsAny(c.ID, "./*") || len(c.ID) > 100 {
		return nil, refuse(proto.ErrInvalidParams, "the id of a configuration has at most 100 bytes and no points, slashes and asterisks")
	}
	return p.configs.Save(ctx, t.TaskInfo().TaskID, c)
}

// configs keeps configurations in a long-term store.
type configs struct{ store memory.Store }

func (configs) space(id proto.TaskID) []string {
	thread, name, _ := strings.Cut(string(id), ".")
	return []string{"a2a_push", thread, name}
}

func (s configs) Save(ctx context.Context, id proto.TaskID, c *proto.PushConfig) (*proto.PushConfig, error) {
	kept := *c
	if kept.TaskID = id; kept.ID == "" {
		kept.ID = uuid.NewString()
	}
	data, err := json.Marshal(kept)
	if err == nil {
		_, err = s.store.Put(ctx, s.space(id), kept.ID, data)
	}
	return &kept, err
}

func (s configs) Get(ctx context.Context, id proto.TaskID, config string) (*proto.PushConfig, error) {
	all, err := s.List(ctx, id)
	for _, c := range all {
		if c.ID == config {
			return c, nil
		}
	}
	if err == nil {
		err = refuse(proto.ErrInvalidParams, "the task has no configuration %.100q", config)
	}
	return nil, err
}

// most is how many addresses a task may have.
const most = 10

func (s configs) List(ctx context.Context, id proto.TaskID) ([]*proto.PushConfig, error) {
	items, err := s.store.Search(ctx, s.space(id), memory.Query{Limit: most + 1})
	var out []*proto.PushConfig
	for _, item := range items {
		c := &proto.PushConfig{}
		if err := json.Unmarshal(item.Value, c); err != nil {
			return nil, fmt.Errorf("a2a: configuration %q of task %s: %w", item.Key, id, err)
		}
		out = append(out, c)
	}
	return out, err
}

func (s configs) Delete(ctx context.Context, id proto.TaskID, config string) error {
	return s.store.Delete(ctx, s.space(id), config)
}

var errNoPush = proto.NewError(proto.ErrPushNotificationNotSupported, "push notifications are not sent: follow the task")

// pushed returns a task whose notifications the caller may set.
func (a *agent) pushed(ctx context.Context, id proto.TaskID) (*task, error) {
	if a.push == nil {
		return nil, errNoPush
	}
	return a.find(ctx, id)
}

// CreateTaskPushConfig implements the method.
func (a *agent) CreateTaskPushConfig(ctx context.Context, c *proto.PushConfig) (*proto.PushConfig, error) {
	t, err := a.pushed(ctx, c.TaskID)
	if err != nil {
		return nil, err
	}
	all, err := a.push.configs.List(ctx, c.TaskID)
	if err == nil && len(all) >= most {
		err = refuse(proto.ErrInvalidParams, "a task has at most %d configurations", most)
	}
	if err != nil {
		return nil, err
	}
	return a.push.add(ctx, t, c)
}

// GetTaskPushConfig implements the method.
func (a *agent) GetTaskPushConfig(ctx context.Context, req *proto.GetTaskPushConfigRequest) (*proto.PushConfig, error) {
	if _, err := a.pushed(ctx, req.TaskID); err != nil {
		return nil, err
	}
	return a.push.configs.Get(ctx, req.TaskID, req.ID)
}

// ListTaskPushConfigs implements the method; there is one page.
func (a *agent) ListTaskPushConfigs(ctx context.Context, req *proto.ListTaskPushConfigRequest) (*proto.ListTaskPushConfigResponse, error) {
	if _, err := a.pushed(ctx, req.TaskID); err != nil {
		return nil, err
	}
	all, err := a.push.configs.List(ctx, req.TaskID)
	return &proto.ListTaskPushConfigResponse{Configs: append([]*proto.PushConfig{}, all...)}, err
}

// DeleteTaskPushConfig implements the method.
func (a *agent) DeleteTaskPushConfig(ctx context.Context, req *proto.DeleteTaskPushConfigRequest) error {
	if _, err := a.pushed(ctx, req.TaskID); err != nil {
		return err
	}
	return a.push.configs.Delete(ctx, req.TaskID, req.ID)
}
