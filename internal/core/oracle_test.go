package core_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// world is a graph together with what its nodes do. What a task does depends on
// the node, the step, its place in the plan and its payload alone, so that it
// does the same whenever it runs again.
type world struct {
	Seed      uint64
	Nodes     []worldNode
	Start     []string
	Edges     map[string][]string
	Joins     []worldJoin
	Last      int  // from this step on, tasks lead nowhere
	Conflicts bool // tasks may write one plain field
	Heavy     bool // lists get long items, so that snapshots are due
	Mild      bool // nothing depends on when and in which order a superstep's changes are folded
}

type worldNode struct {
	Name        string
	Defer, Task bool
}

type worldJoin struct {
	From []string
	To   string
}

// deed is what a task does.
type deed struct {
	Update map[string]json.RawMessage
	Static bool
	Stop   bool
	Goto   []string // "" is the end
	Sends  []worldSend
}

type worldSend struct{ To, Payload string }

func (w *world) roll(n int, parts ...any) int {
	h := fnv.New64a()
	fmt.Fprint(h, w.Seed, parts)
	x := h.Sum64()
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return int(x % uint64(n))
}

// deed says what a task does that sees a state. Again is set when its results
// were voided before: it then avoids what can conflict.
func (w *world) deed(node string, step, index int, payload string, sees map[string]json.RawMessage, again bool) deed {
	roll := func(n int, what string) int { return w.roll(n, node, step, index, payload, what) }
	d := deed{Update: map[string]json.RawMessage{}}
	set := func(field string, form string) { d.Update[field] = json.RawMessage(form) }

	// What a task saw goes into what it writes: a task that sees anything
	// else than it should leaves its mark.
	seen := fnv.New64a()
	if w.Mild {
		sees = nil
	}
	for _, f := range slices.Sorted(maps.Keys(sees)) {
		fmt.Fprintf(seen, "%s=%s;", f, sees[f])
	}
	pad := ""
	if w.Heavy {
		pad = strings.Repeat("·", 600)
	}
	item := fmt.Sprintf("[%q]", fmt.Sprintf("%s.%d.%d%s %x%s", node, step, index, payload, seen.Sum64(), pad))
	switch roll(8, "log") {
	case 0:
		if w.Mild {
			break
		}
		set("log", `{"$overwrite":`+item+`}`)
	case 1, 2:
	case 3:
		set("list", item)
	default:
		set("log", item)
	}
	if roll(2, "n") == 0 {
		set("n", strconv.Itoa(roll(5, "add")))
	}
	if roll(2, "x") == 0 {
		set("x"+node, strconv.Itoa(step))
	}
	if roll(3, "e") == 0 && !w.Mild {
		set("e"+node, strconv.Itoa(step))
	}
	if w.Conflicts && !again && roll(6, "conflict") == 0 {
		set("x", strconv.Itoa(roll(2, "value")))
	}

	if step >= w.Last {
		d.Goto = []string{""}
		return d
	}
	switch roll(10, "route") {
	default:
		d.Static = true
	case 0, 1, 2:
		for k := range 1 + roll(2, "gotos") {
			if to := w.Nodes[roll(len(w.Nodes), "to"+strconv.Itoa(k))]; !to.Task {
				d.Goto = append(d.Goto, to.Name)
			}
		}
		if roll(3, "send") == 0 {
			for k := range 1 + roll(3, "sends") {
				to := w.Nodes[roll(len(w.Nodes), "target"+strconv.Itoa(k))]
				d.Sends = append(d.Sends, worldSend{to.Name, strconv.Itoa(k)})
			}
		}
		d.Static = len(d.Goto)+len(d.Sends) == 0
	case 3:
		d.Goto = []string{""}
	case 4:
		d.Stop = roll(4, "stop") == 0
		d.Static = !d.Stop
	}
	return d
}

// worldEdit is an edit from outside that stood in for a node.
type worldEdit struct {
	Step int // of the superstep that was open
	As   string
	Ran  []bool // by its tasks: the node had run
	Done []bool // by its tasks: so had what decides where it leads
	Deed deed
}

// outcome is what a run of a world leads to.
type outcome struct {
	State string
	Steps []string // the tasks of each superstep
	Join  string   // the join that was left incomplete: its target, and the sources that ran but led elsewhere
}

// dumb runs a world the simple way: one thing after the other, all in memory. Edits
// happen while the superstep is open that they name.
func (w *world) dumb(edits []worldEdit) outcome {
	type task struct {
		node, payload string
		sent          bool
	}
	var out outcome
	state := map[string]json.RawMessage{}
	arrived, elsewhere := make([]map[string]bool, len(w.Joins)), make([]map[string]bool, len(w.Joins))
	fired := make([]bool, len(w.Joins)) // for what is planned or deferred now
	filled := make([]bool, len(w.Joins))
	deferred := map[string]bool{}
	due := map[string]bool{}
	declared := func(a, b string) int { return cmp.Compare(w.index(a), w.index(b)) }
	lead := func(node string) {
		if node == "" {
			return
		}
		if w.Nodes[w.index(node)].Defer {
			deferred[node] = true
		} else {
			due[node] = true
		}
	}
	// all notes an arrival and reports whether it was the last.
	all := func(k int, node string) bool {
		if arrived[k] == nil {
			arrived[k] = map[string]bool{}
		}
		arrived[k][node], fired[k] = true, false
		return len(arrived[k]) == len(w.Joins[k].From)
	}
	led := func(node string) { // elsewhere
		for k, j := range w.Joins {
			if slices.Contains(j.From, node) && !arrived[k][node] {
				if elsewhere[k] == nil {
					elsewhere[k] = map[string]bool{}
				}
				elsewhere[k][node] = true
			}
		}
	}
	fire := func(k int) {
		arrived[k], elsewhere[k], fired[k] = nil, nil, true
		lead(w.Joins[k].To)
	}
	for _, n := range w.Start {
		lead(n)
	}
	var sent []task
	for step := 1; ; step++ {
		// Sends first, then nodes as declared; deferred nodes if there is
		// nothing else.
		now := sent
		if len(sent)+len(due) == 0 {
			due, deferred = deferred, map[string]bool{}
		}
		for _, n := range slices.SortedFunc(maps.Keys(due), declared) {
			now = append(now, task{node: n})
		}
		sent, due = nil, map[string]bool{}
		// All see the state as it was; the changes are merged after.
		var names []string
		deeds := make([]deed, len(now))
		x := ""
		for i, t := range now {
			names = append(names, t.node+t.payload)
			deeds[i] = w.deed(t.node, step, i, t.payload, state, false)
			if v := string(deeds[i].Update["x"]); v != "" && x != "" && v != x {
				deeds[i] = w.deed(t.node, step, i, t.payload, state, true)
			} else if v != "" {
				x = v
			}
		}
		var updates []map[string]json.RawMessage
		planned := len(now)
		for _, e := range edits {
			if e.Step != step {
				continue
			}
			// It completes the node's task. If there is none that it could, it is as
			// if the node had ended in the superstep before: what it leads to is
			// there already, if that has not run yet.
			updates = append(updates, e.Deed.Update)
			d := e.Deed
			d.Update = nil
			own := 0
			for own < len(now) && (now[own].node != e.As || e.Done[own]) {
				own++
			}
			if own < len(now) {
				if e.Ran[own] {
					d.Update = deeds[own].Update
				}
				deeds[own] = d
				continue
			}
			waits := func(node string) bool {
				for i, t := range now {
					if t.node == node && !t.sent && !e.Ran[i] {
						return true
					}
				}
				return false
			}
			to := d.Goto
			if d.Static {
				d.Static = false
				to = w.Edges[e.As]
				for k, j := range w.Joins {
					planned := waits(j.To)
					if !slices.Contains(j.From, e.As) || fired[k] && (planned || deferred[j.To]) || !all(k, e.As) {
						continue
					}
					if planned {
						arrived[k], elsewhere[k], fired[k] = nil, nil, true
					} else {
						filled[k] = true // it fires when all is led on
					}
				}
			} else {
				led(e.As)
			}
			d.Goto = nil
			for _, n := range to {
				if !waits(n) {
					d.Goto = append(d.Goto, n)
				}
			}
			names = append(names, e.As)
			now, deeds = append(now, task{node: e.As, sent: true}), append(deeds, d)
		}
		if len(now) == 0 {
			break
		}
		out.Steps = append(out.Steps, strings.Join(names, " "))
		next := maps.Clone(state)
		for f := range next {
			if f[0] == 'e' {
				delete(next, f)
			}
		}
		for _, d := range deeds {
			updates = append(updates, d.Update)
		}
		for _, update := range updates {
			for f, u := range update {
				next[f] = dumbMerge(f, next[f], u)
			}
		}
		state = next
		if slices.ContainsFunc(deeds, func(d deed) bool { return d.Stop }) {
			clear(arrived)
			clear(elsewhere)
			fired, filled = make([]bool, len(w.Joins)), make([]bool, len(w.Joins))
			deferred = map[string]bool{}
			continue
		}
		for k, j := range w.Joins {
			fired[k] = fired[k] && deferred[j.To]
		}
		for i, d := range deeds {
			if !d.Static && i < planned {
				led(now[i].node)
			}
			for _, s := range d.Sends {
				sent = append(sent, task{s.To, s.Payload, true})
			}
			for _, to := range d.Goto {
				lead(to)
			}
			if !d.Static {
				continue
			}
			for _, to := range w.Edges[now[i].node] {
				lead(to)
			}
			for k, j := range w.Joins {
				if slices.Contains(j.From, now[i].node) && !filled[k] && all(k, now[i].node) {
					fire(k)
				}
			}
		}
		for k := range w.Joins {
			if filled[k] {
				filled[k] = false
				fire(k)
			}
		}
	}
	for k, j := range w.Joins {
		if len(arrived[k]) > 0 && out.Join == "" {
			out.Join = j.To
			for _, n := range j.From {
				if elsewhere[k][n] && !arrived[k][n] {
					out.Join += " " + n
				}
			}
		}
	}
	data, _ := json.Marshal(state)
	out.State = string(data)
	return out
}

func (w *world) index(node string) int {
	return slices.IndexFunc(w.Nodes, func(n worldNode) bool { return n.Name == node })
}

func dumbMerge(field string, old, update json.RawMessage) json.RawMessage {
	switch field[0] {
	case 'n':
		var a, b int
		_ = json.Unmarshal(old, &a)
		_ = json.Unmarshal(update, &b)
		return json.RawMessage(strconv.Itoa(a + b))
	case 'l':
		var a, b []string
		_ = json.Unmarshal(old, &a)
		if json.Unmarshal(update, &b) != nil {
			var over struct {
				V []string `json:"$overwrite"`
			}
			_ = json.Unmarshal(update, &over)
			a, b = nil, over.V
		}
		data, _ := json.Marshal(append(a, b...))
		return data
	}
	return update
}
