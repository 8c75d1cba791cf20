package local

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/internal/core"
)

// cacheEntry is what a node's cache holds.
type cacheEntry struct {
	Changes json.RawMessage `json:"changes,omitempty"`
	Goto    []string        `json:"goto,omitempty"`
	Stop    bool            `json:"stop,omitempty"`
}

// cached looks a node's result up, by the state as the task sees it.
func (s *Session) cached(ctx context.Context, node *Node, task *core.Task, payload any, command *Command, r *report) (key string, hit bool, err error) {
	state, err := s.fork(task) // a key function may change what it is given
	if err != nil {
		return "", false, err
	}
	if key, err = node.Cache.Key(state, payload); err != nil {
		return "", false, fmt.Errorf("cache key: %w", err)
	}
	data, ok, err := node.Cache.Store.Get(ctx, key)
	if err != nil || !ok {
		return key, false, err
	}
	var e cacheEntry
	if err := json.Unmarshal(data, &e); err != nil {
		return key, false, nil // written by something else: not ours to use
	}
	cached := Command{Goto: e.Goto, Stop: e.Stop}
	if _, err := s.resolve(node.Name, &cached); err != nil {
		return key, false, nil // by a program that had other nodes
	}
	if e.Changes != nil {
		if r.Changes, err = s.prog.Values.Decode(e.Changes, nil); err != nil {
			return key, false, nil
		}
		if r.Data, r.Growth, err = s.prog.Values.Encode(r.Changes); err != nil {
			return key, false, err
		}
	}
	*command, r.Cached = cached, true
	return key, true, nil
}

// cache keeps a node's result. Commands with sends are not cached: their
// payloads may be as large as they like. Neither are changes that can't be
// recorded whole, nor what moves the state that a subgraph keeps.
func (s *Session) cache(ctx context.Context, node *Node, key string, c Command, r *report) {
	if key == "" || len(c.Sends) > 0 || c.Parent != nil || len(r.kept()) > 0 || core.Unrecorded(s.prog.Values, r.Changes) {
		return
	}
	data := r.Data
	if data == nil && r.Changes != nil {
		var err error
		if data, _, err = s.prog.Values.Encode(r.Changes); err != nil {
			return
		}
	}
	entry, err := json.Marshal(cacheEntry{Changes: data, Goto: c.Goto, Stop: c.Stop})
	if err != nil {
		return
	}
	// A cache that can't store costs a computation, not the run.
	_ = node.Cache.Store.Set(ctx, key, entry, node.Cache.TTL)
}
