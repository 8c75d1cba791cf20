package dialogue

import (
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// scene is what expressions and texts of a frame see.
type scene struct {
	m       *conversation
	id      string // flow_id; "" outside of a frame
	flow    *program.Flow
	overlay map[string]*expr.Value // slots as a step is about to leave them; nil is unfilled
	repair  *Repair
	option  *expr.Value
}

// scene returns the scene of a frame.
func (m *conversation) scene(i int) *scene {
	return &scene{m: m, id: m.s.FlowStack[i].FlowID, flow: m.flow(i), repair: m.frame(i).Repair}
}

// outside returns the scene of a flow that is in no frame.
func (m *conversation) outside(f *program.Flow, about *Repair) *scene {
	return &scene{m: m, flow: f, repair: about}
}

func text(s string) (expr.Value, bool) { return expr.Str(s), s != "" }

// field returns one of some texts, given by name; an empty one is missing.
func field(name string, named ...string) (expr.Value, bool) {
	for i := 0; i+1 < len(named); i += 2 {
		if named[i] == name {
			return text(named[i+1])
		}
	}
	return expr.Value{}, false
}

// Lookup finds a path.
func (s *scene) Lookup(path []string) (expr.Value, bool) {
	m := s.m
	if s.overlay != nil {
		key, rest := path[0], path[1:]
		if key == session && len(path) > 1 {
			key, rest = session+"."+path[1], path[2:]
		}
		if v, ok := s.overlay[key]; ok {
			if v == nil {
				return expr.Value{}, false
			}
			return v.At(rest)
		}
	}
	if len(path) == 2 {
		switch path[0] {
		case "turn":
			switch path[1] {
			case "text":
				return expr.Str(m.t.Text), true
			case "language":
				return expr.Str(m.t.Language), true
			case "channel":
				return text(m.t.Channel)
			case "number":
				return expr.Num(float64(m.t.Number)), true
			case "time":
				return expr.Str(m.t.Time.Format(time.RFC3339)), true
			}
			return expr.Value{}, false
		case "flow":
			flow, id := s.flow, s.id
			if s.repair != nil && s.repair.About != "" { // a repair speaks of the flow that it repairs
				if i := m.index(s.repair.About); i >= 0 {
					flow, id = m.flow(i), s.repair.About
				}
			}
			return field(path[1], "name", flow.Name, "id", id, "description", flow.Description)
		case "error":
			e := m.t.Error
			if s.repair != nil && s.repair.Error != nil {
				e = s.repair.Error
			}
			if e == nil {
				return expr.Value{}, false
			}
			return field(path[1], "type", e.Type, "message", e.Message, "action", e.Action)
		case "repair":
			r := &m.t.Repair
			if s.repair != nil {
				r = s.repair
			}
			if path[1] == "value" {
				return r.Value, !r.Value.IsNone()
			}
			return field(path[1], "command", r.Command, "slot", r.Slot, "topic", r.Topic)
		}
	}
	switch {
	case path[0] == session:
		if len(path) < 2 {
			return expr.Value{}, false
		}
		v, ok := m.s.FlowSlots[session][path[1]]
		if !ok {
			return expr.Value{}, false
		}
		return v.At(path[2:])
	case path[0] == "option" && s.option != nil:
		return s.option.At(path[1:])
	}
	v, ok := m.s.FlowSlots[s.id][path[0]]
	if !ok {
		return expr.Value{}, false
	}
	return v.At(path[1:])
}

// Now is the time of the turn.
func (s *scene) Now() time.Time { return s.m.t.Time }

// UUID is derived from the thread, the turn and the step.
func (s *scene) UUID() string {
	step := ""
	if i := s.m.index(s.id); i >= 0 {
		step = s.m.s.FlowStack[i].CurrentStep
	}
	h := digest(s.m.m.Thread, fmt.Sprint(s.m.t.Number), s.id, step)
	return h[:8] + "-" + h[8:12] + "-5" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32]
}

// Language is that of the turn.
func (s *scene) Language() language.Language { return s.m.lang() }

// Label returns what the language calls an option.
func (s *scene) Label(path []string, v expr.Value) string {
	var slot *program.Slot
	switch {
	case len(path) == 1 && s.flow != nil:
		slot = s.flow.Slots[path[0]]
	case len(path) == 2 && path[0] == session:
		slot = s.m.p.Session[path[1]]
	}
	if slot != nil {
		if o, ok := slot.Option(v); ok {
			return o.LabelIn(s.m.t.Language, s.m.p.Languages.Default)
		}
	}
	if b, ok := v.Bool(); ok {
		return s.Language().FormatBool(b)
	}
	return v.String()
}
