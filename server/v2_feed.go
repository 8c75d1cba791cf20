package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// eventOf makes an event of the protocol's second version, whose data are the parameters
// of what clients see.
func eventOf(method, channel string, namespace []string, at time.Time, node string, data any) (db.FeedEvent, error) {
	if namespace == nil {
		namespace = []string{}
	}
	params, err := json.Marshal(struct {
		Namespace []string `json:"namespace"`
		Timestamp int64    `json:"timestamp"`
		Node      string   `json:"node,omitempty"`
		Data      any      `json:"data"`
	}{namespace, at.UnixMilli(), node, data})
	if err != nil {
		return db.FeedEvent{}, fmt.Errorf("event %s: %w", method, err)
	}
	// A question ends what some clients read of a run, as its end does.
	ending := method == "input.requested" || method == "lifecycle" && len(namespace) == 0 && !isStatus(data, statusRunning)
	return db.FeedEvent{Version: 2, Method: method, Channel: channel, Namespace: namespace, Ending: ending, Data: params}, nil
}

// isStatus reports whether an event of a graph's life says that it has a status.
func isStatus(data any, status string) bool {
	life, ok := data.(map[string]any)
	return ok && life["event"] == status
}

// note notes what an event says of a graph's life. The caller holds the lock.
func (f *feed) note(ev *db.FeedEvent) {
	data := objectOf(objectOf(ev.Data)["data"])
	status := textOf(data["event"])
	if status == statusStarted {
		status = statusRunning
	}
	f.mark(ev.Namespace, status, textOf(data["graph_name"]))
}

// mark notes the state of a graph of the newest run. The caller holds the lock.
func (f *feed) mark(namespace []string, status, graph string) {
	if len(namespace) == 0 && status == statusRunning {
		f.tree = nil
	}
	for _, n := range f.tree {
		if slices.Equal(n.Namespace, namespace) {
			n.Status = status
			return
		}
	}
	if len(f.tree) < maxTree {
		f.tree = append(f.tree, &v2Node{Namespace: append([]string{}, namespace...), Status: status, Graph: graph})
	}
}

// shown returns an event as readers see it. That a task begins is kept without the
// state that it begins with: the values before it have that, and many tasks would
// have it once more.
func (f *feed) shown(ev *db.FeedEvent) []byte {
	id := strconv.FormatInt(ev.Seq, 10)
	if ev.Method == "lifecycle" && len(ev.Namespace) == 0 {
		id = "synth:" + ev.Run + ":" + id // clients read from the ID which run begins or ends
	}
	params := ev.Data
	if ev.Channel == "tasks" {
		p := objectOf(ev.Data)
		if data := objectOf(p["data"]); data["triggers"] != nil && data["input"] == nil {
			data["input"] = orNull(objectOf(f.valuesBefore(ev))["data"])
			params = p.with(object{"data": data.raw()}).raw()
		}
	}
	return fmt.Appendf(nil, `{"type":"event","event_id":%q,"seq":%d,"method":%q,"params":%s}`, id, ev.Seq, ev.Method, params)
}

// valuesBefore returns the newest values of an event's graph that its run told of
// before, nil if there are none left.
func (f *feed) valuesBefore(ev *db.FeedEvent) json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, earlier := range slices.Backward(f.events[:f.index(ev.Seq)]) {
		switch {
		case earlier.Version != 2:
		case earlier.Channel == "values" && slices.Equal(earlier.Namespace, ev.Namespace):
			return earlier.Data
		case earlier.Channel == "lifecycle" && len(earlier.Namespace) == 0: // the beginning of the run
			return nil
		}
	}
	return nil
}

// buffered returns the events before a number that are left.
func (f *feed) buffered(before int64) []*db.FeedEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events[:f.index(before)])
}

// v2Filter says which events a client wants. Channels that there are none of, as
// later clients may name, bring nothing.
type v2Filter struct {
	Channels   []string   `json:"channels"`
	Namespaces [][]string `json:"namespaces"` // prefixes; none are all
	Depth      *int       `json:"depth"`      // how many segments more than the prefix; none is any
	Since      *int64     `json:"since"`      // only those after that number
}

func (f *v2Filter) check() error {
	if len(f.Channels) == 0 {
		return invalid("channels is required: a list of values, updates, messages, tools, custom, custom:NAME, checkpoints, tasks, lifecycle, input")
	}
	if f.Depth != nil && *f.Depth < 0 {
		return invalid("depth must not be negative")
	}
	return nil
}

func (f *v2Filter) matches(ev *db.FeedEvent) bool {
	if ev.Version != 2 {
		return false
	}
	if !slices.Contains(f.Channels, ev.Channel) && (!strings.HasPrefix(ev.Channel, "custom:") || !slices.Contains(f.Channels, "custom")) {
		return false
	}
	if len(f.Namespaces) == 0 {
		return f.Depth == nil || len(ev.Namespace) <= *f.Depth
	}
	return slices.ContainsFunc(f.Namespaces, func(prefix []string) bool {
		return below(ev.Namespace, prefix) && (f.Depth == nil || len(ev.Namespace)-len(prefix) <= *f.Depth)
	})
}

// below reports whether a namespace begins with a prefix, whose segments may
// leave out which task of the node it is.
func below(namespace, prefix []string) bool {
	if len(prefix) > len(namespace) {
		return false
	}
	for i, want := range prefix {
		name, _, _ := strings.Cut(namespace[i], ":")
		if namespace[i] != want && name != want {
			return false
		}
	}
	return true
}
