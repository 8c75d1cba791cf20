package local

import (
	"encoding/json"
	"fmt"
)

// cacheEntry is what a node's cache holds.
type cacheEntry struct {
	Changes json.RawMessage `json:"changes,omitempty"`
	Goto    []string        `json:"goto,omitempty"`
	Stop    bool            `json:"stop,omitempty"`
}

// cached looks the node's result up, by the state as the task sees it.
func (e *execution) cached(payload any) (key string, hit bool, err error) {
	s, node := e.s, e.node
	state, err := e.fork() // a key function may change what it is given
	if err != nil {
		return "", false, err
	}
	if key, err = node.Cache.Key(state, payload); err != nil {
		return "", false, fmt.Errorf("cache key: %w", err)
	}
	data, ok, err := node.Cache.Store.Get(e.ctx, key)
	if err != nil || !ok {
		return key, false, err
	}
	var entry cacheEntry
	if err := json.Unmarshal(data, &entry); err != nil {
		return key, false, nil // written by something else: not ours to use
	}
	cached := Command{Goto: NamesOf(entry.Goto...), Stop: entry.Stop}
	if _, err := s.prog.resolve(node.Name, &cached, s.o.parent != nil); err != nil {
		return key, false, nil // by a program that had other nodes
	}
	if entry.Changes != nil {
		if e.Changes, err = s.prog.Values.Decode(entry.Changes, nil); err != nil {
			return key, false, nil
		}
		if e.Data, err = s.prog.Values.Encode(e.Changes); err != nil {
			return key, false, err
		}
	}
	e.command, e.Cached = cached, true
	return key, true, nil
}

// cache keeps the node's result. Commands with sends are not cached: their
// payloads may be as large as they like. Neither are changes that can't be
// recorded whole, nor what moves the state that a subgraph keeps.
func (e *execution) cache(key string) {
	values, c := e.s.prog.Values, &e.command
	if key == "" || len(c.Sends) > 0 || c.Parent != nil || len(e.kept()) > 0 || values.Unrecorded(e.Changes) {
		return
	}
	data := e.Data
	if data == nil && e.Changes != nil {
		var err error
		if data, err = values.Encode(e.Changes); err != nil {
			return
		}
	}
	entry, err := json.Marshal(cacheEntry{Changes: data, Goto: c.Goto.List(), Stop: c.Stop})
	if err != nil {
		return
	}
	// A cache that can't store costs a computation, not the run.
	_ = e.node.Cache.Store.Set(e.ctx, key, entry, e.node.Cache.TTL)
}
