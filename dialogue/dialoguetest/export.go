package dialoguetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue"
	assistants "github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/internal/yamlvalue"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Exported is a conversation that was made a test.
type Exported struct {
	Text     string   `json:"text"`               // a file of one scenario, with what follows in comments
	Masked   []string `json:"masked,omitempty"`   // what is sensitive, and has stand-ins
	Notes    []string `json:"notes,omitempty"`    // what the test doesn't tell or compare
	Failures []string `json:"failures,omitempty"` // what the test, run at once, should have seen and didn't
}

// Export makes a test of a conversation: what was said and understood, the clock, what
// actions, validators and models answered, and what was seen of it. It is run once, with
// nothing but what it holds.
//
// The turns are all of the conversation, as [assistants.Turns] returns them with the
// program. In the place of what is sensitive are stand-ins, which the slot takes: nothing in
// the test tells more than turns do.
func Export(thread string, p *program.Program, turns []assistants.Turn) (*Exported, error) {
	if n := len(turns); n > 0 && !turns[n-1].Ended {
		turns = turns[:n-1] // under way
	}
	switch {
	case len(turns) == 0:
		return nil, fmt.Errorf("thread %q has no turn that is over: there is nothing to test", thread)
	case turns[0].Number != 1:
		return nil, fmt.Errorf("the conversation of thread %q begins with turn %d, as those before are gone: a test needs them all", thread, turns[0].Number)
	}
	for i, t := range turns {
		if t.Began.By == "" || t.Number != i+1 {
			return nil, fmt.Errorf("the history of thread %q doesn't say what turn %d began with: a test needs it", thread, i+1)
		}
	}
	x := export(thread, p, turns, slices.ContainsFunc(turns, func(t assistants.Turn) bool { return t.Began.By == "deadline" }))
	if len(x.Failures) > 0 { // what happened may depend on the very time
		if exact := export(thread, p, turns, true); len(exact.Failures) < len(x.Failures) {
			x = exact
		}
	}
	return &x.Exported, nil
}

// exporter writes one scenario.
type exporter struct {
	Exported
	p        *program.Program
	stubs    map[string][]*yaml.Node
	standIns map[[2]string]expr.Value // by slot and masked value
	asked    []string                 // IDs of questions
	now      time.Time                // the scenario's clock
	last     time.Time                // of the turn before, as it was
	exact    bool                     // all times are kept, to the second
}

var unplain = regexp.MustCompile(`[^\pL\pN._-]+`)

func export(thread string, p *program.Program, turns []assistants.Turn, exact bool) *exporter {
	x := &exporter{p: p, stubs: map[string][]*yaml.Node{}, standIns: map[[2]string]expr.Value{}, now: clock, exact: exact}
	s := newMap()
	id := strings.Trim(unplain.ReplaceAllString(thread, "-"), "-")
	if id == "" {
		id = "conversation"
	}
	s.text("id", id)
	s.text("about", fmt.Sprintf("a conversation of %s on %s", count(len(turns), "turn"), turns[0].Time.UTC().Format("2 January 2006")))
	s.text("thread", thread)
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range turns {
		list.Content = append(list.Content, x.turn(&turns[i], i == 0))
	}
	if len(x.stubs) > 0 {
		stubs := newMap()
		for _, name := range slices.Sorted(maps.Keys(x.stubs)) {
			answers := x.stubs[name]
			for n := len(answers); n > 1 && sameYAML(answers[n-1], answers[n-2]); n = len(answers) { // the last repeats
				answers = answers[:n-1]
			}
			stubs.put(name, &yaml.Node{Kind: yaml.SequenceNode, Content: answers})
		}
		s.put("stub", stubs.node())
	}
	s.put("turns", list)
	x.write(s)
	return x
}

// write writes the file and runs what it holds.
func (x *exporter) write(s *mapping) {
	text, err := yaml.Dump(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{s.node()}}, yaml.WithV4Defaults(), yaml.WithLineWidth(-1))
	var list []Scenario
	if err == nil {
		list, err = Parse(text)
	}
	if err != nil {
		x.Failures = append(x.Failures, err.Error())
	} else {
		r := &Runner{compiled: map[string]assistant{"": {program: x.p}}, Assistant: func(string) ([]program.File, error) { return nil, nil }}
		x.Failures = r.Run(list[0], list)
	}
	var head strings.Builder
	comment := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&head, "# %s\n", title)
		for _, l := range lines {
			fmt.Fprintf(&head, "#   %s\n", strings.Join(strings.Fields(l), " "))
		}
	}
	comment("Sensitive, with stand-ins in their place:", x.Masked)
	comment("Not told or not compared:", x.Notes)
	comment("It doesn't hold:", x.Failures)
	x.Text = head.String() + string(text)
}

func (x *exporter) notef(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(x.Notes, n) {
		x.Notes = append(x.Notes, n)
	}
}

// turn writes one turn.
func (x *exporter) turn(t *assistants.Turn, first bool) *yaml.Node {
	m := newMap()
	if d := x.passes(t, first); d != 0 {
		m.text("clock", d.String())
	}
	x.begins(m, t)
	x.answers(t)
	x.said(m, t)
	x.stands(m, t)
	x.did(m, t)
	if t.Question != "" && !slices.Contains(x.asked, t.Question) {
		x.asked = append(x.asked, t.Question)
	}
	return m.node()
}

// passes returns the time that passes before a turn, beside the second of the turn itself.
func (x *exporter) passes(t *assistants.Turn, first bool) time.Duration {
	at := t.Time.UTC().Truncate(time.Second)
	if t.Began.By == "deadline" && at.Before(t.Time) {
		at = at.Add(time.Second)
	}
	before := x.last
	x.last = at
	if first && !x.exact {
		x.now = at
		return 0
	}
	d := at.Sub(x.now) - time.Second
	if !x.exact && d < 10*time.Minute || x.exact && d < 0 && !first {
		d = 0
	}
	// A test's turns take a second each, those of machines less: the test's clock may be
	// ahead, and what waits for it began no sooner than the turn before.
	if gap := at.Sub(before); t.Began.By == "deadline" && !first {
		d = max(d, gap)
	}
	x.now = x.now.Add(d + time.Second)
	if !x.exact {
		x.now = at
	}
	return d
}

// begins writes what a turn began with.
func (x *exporter) begins(m *mapping, t *assistants.Turn) {
	switch b := t.Began; b.By {
	case "event":
		m.put("event", newMap().put(b.Event.Name, value(expr.ObjectOf(b.Event.Fields))).node())
		if masked(expr.ObjectOf(b.Event.Fields)) {
			x.notef("turn %d: fields of the event %s are masked; write others", t.Number, b.Event.Name)
		}
		return
	case "release":
		fields := newMap()
		if b.Release.Summary != "" {
			fields.text("summary", b.Release.Summary)
		}
		if len(b.Release.Slots) > 0 {
			slots := map[string]expr.Value{}
			for name, v := range b.Release.Slots {
				slots[name] = x.standIn(t, name, v)
			}
			fields.put("slots", value(expr.ObjectOf(slots)))
		}
		m.put("event", newMap().put("release", fields.node()).node())
		return
	case "operator":
		if b.Operator == nil {
			b.Operator = &dialogue.Operator{}
		}
		m.put("event", newMap().put("operator", newMap().text("text", b.Operator.Text).node()).node())
		return
	case "deadline":
		return
	}
	said := strings.Join(t.Said, "\n")
	m.text("u", said)
	for _, p := range [][2]string{{"lang", t.Began.Language}, {"channel", t.Began.Channel}} {
		if p[1] != "" {
			m.text(p[0], p[1])
		}
	}
	hidden := slices.Contains(t.Hidden, "message")
	if hidden {
		x.notef("turn %d: the message is masked as in the transcript", t.Number)
	}
	if t.Began.By == "button" || t.Began.Question != "" {
		x.button(m, t.Began.Question)
	} else if !t.Asked && len(t.Commands) > 0 && !hidden {
		return // its words are the answer, which nothing but they say
	}
	x.commands(m, t)
}

// button writes which question an answer came with.
func (x *exporter) button(m *mapping, id string) {
	n := len(x.asked)
	switch {
	case id == "":
		m.text("button", "none")
	case n > 0 && id == x.asked[n-1]:
		m.text("button", "last")
	case n > 0 && id == x.asked[0]:
		m.text("button", "first")
	default:
		m.text("button", id)
	}
}

// commands writes what a message was understood as.
func (x *exporter) commands(m *mapping, t *assistants.Turn) {
	var words []string
	var raw []expr.Value
	plain := true
	for _, c := range t.Commands {
		c.Source, c.Of, c.Span = "", "", ""
		if c.Slot != "" {
			c.Value = x.standIn(t, c.Slot, c.Value)
		}
		if len(c.Slots) > 0 {
			slots := map[string]expr.Value{}
			for name, v := range c.Slots {
				slots[name] = x.standIn(t, name, v)
			}
			c.Slots = slots
		}
		text, v := "", commandValue(c)
		if text = commandText(c); text == "" {
			plain = false
		} else if back, ok, err := Command(text); err != nil || !ok || !commandValue(back).Same(v) {
			plain = false
		}
		words, raw = append(words, text), append(raw, v)
	}
	switch {
	case !plain:
		m.put("raw", value(expr.ListOf(raw...)))
	case len(words) == 0:
		m.put("cmd", texted([]string{"none"}))
	default:
		m.put("cmd", texted(words))
	}
}

// commandText writes a command as scenarios do, "" if they can't.
func commandText(c dialogue.Command) string {
	for word, t := range commandWords {
		if t != c.Type {
			continue
		}
		switch c.Type {
		case dialogue.SetSlot, dialogue.CorrectSlot:
			return word + " " + c.Slot + "=" + c.Value.String()
		}
		return strings.TrimSpace(strings.Join([]string{word, c.Flow + c.Slot + c.Reason + c.Topic + c.Option + c.Language}, " "))
	}
	return ""
}

// commandValue is a command as data.
func commandValue(c dialogue.Command) expr.Value {
	var v expr.Value
	if data, err := json.Marshal(c); err != nil || json.Unmarshal(data, &v) != nil {
		return expr.Value{}
	}
	return v
}

// answers writes what actions, validators and models answered.
func (x *exporter) answers(t *assistants.Turn) {
	add := func(name string, answer *mapping, times int) {
		for range times {
			x.stubs[name] = append(x.stubs[name], answer.node())
		}
	}
	for _, a := range t.Actions {
		answer := newMap()
		switch {
		case !a.Recorded:
			x.notef("turn %d: what the action %s answered is not recorded; write its stub", t.Number, a.Action)
		case a.Error != nil:
			failed(answer, a.Error)
		default:
			var to []program.Out
			if f, ok := x.p.Flow(a.Flow); ok {
				if s, ok := f.Step(a.Step); ok {
					to = s.Outputs(a.Action)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(a.Outputs)) {
				v := a.Outputs[name]
				if i := slices.IndexFunc(to, func(o program.Out) bool { return o.Output == name }); i >= 0 {
					v = x.standIn(t, to[i].Slot, v)
				}
				if masked(v) {
					x.notef("turn %d: the output %s of the action %s is masked", t.Number, name, a.Action)
				}
				if name == "late" || name == "error" {
					x.notef("turn %d: the output %s of the action %s can't be told: in a stub it means something else", t.Number, name, a.Action)
					continue
				}
				answer.put(name, value(v))
			}
		}
		add(a.Action, answer, max(a.Attempts, 1))
	}
	for _, v := range t.Validations {
		answer := newMap()
		switch {
		case v.Error != nil:
			failed(answer, v.Error)
		case v.Refused != "":
			answer.text("refuse", v.Refused)
		case !v.Kept.IsNone():
			answer.put("keep", value(v.Kept))
		}
		add(validating+v.Validator, answer, 1)
	}
	for _, a := range t.Answers {
		answer := newMap()
		switch {
		case a.Error != nil:
			failed(answer, a.Error)
		case a.Tool != "":
			answer.text("tool", a.Tool).put("args", value(expr.ObjectOf(a.Args)))
		default:
			answer.text("text", a.Text)
		}
		if masked(expr.Str(a.Text)) || masked(expr.ObjectOf(a.Args)) {
			x.notef("turn %d: what the model answered is masked", t.Number)
		}
		add("model", answer, 1)
	}
}

func failed(answer *mapping, f *dialogue.Failure) {
	answer.text("error", f.Type)
	if f.Message != "" {
		answer.text("message", f.Message)
	}
}

// said writes what the reply was.
func (x *exporter) said(m *mapping, t *assistants.Turn) {
	hidden := slices.Contains(t.Hidden, "reply")
	var lines, says []string
	text := ""
	for _, s := range t.Messages {
		if s.Response != "" {
			says = append(says, s.Response)
		}
		text += s.Text
		for line := range strings.Lines(s.Text) {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || t.Rephrased && s.Rephrase:
			case hidden && strings.Contains(line, "*"):
				x.notef("turn %d: lines of the reply that show something masked are not compared", t.Number)
			default:
				lines = append(lines, line)
			}
		}
	}
	if t.Rephrased {
		x.notef("turn %d: a model worded the reply anew; its words are not compared", t.Number)
	}
	if len(lines) > 0 {
		m.put("has", texted(lines))
	}
	if text == "" {
		m.put("silent", plainNode("true"))
	}
	if len(says) > 0 {
		m.put("says", texted(says))
	}
}

// stands writes how the conversation stands.
func (x *exporter) stands(m *mapping, t *assistants.Turn) {
	stack := []string{}
	for _, f := range t.Stack {
		if f.Role != dialogue.ByPattern {
			stack = append(stack, f.Flow)
		}
	}
	m.put("stack", texted(stack))
	if t.Waiting == "" {
		m.put("wait", plainNode("null"))
	} else {
		m.text("wait", t.Waiting)
	}
	m.text("state", t.State)
	slots, session := newMap(), newMap()
	for _, e := range t.Trace {
		if state, ok := strings.CutPrefix(e.Kind, "flow_"); ok && state != string(dialogue.Active) && state != string(dialogue.Paused) {
			m.text("archive_last", e.Flow).text("archive_state", state)
		}
		if e.Kind != "slot_set" {
			continue
		}
		if name, ok := strings.CutPrefix(e.Slot, "session."); ok {
			if v, ok := t.Session[name]; ok && !v.IsNone() && !(x.p.Session[name] != nil && x.p.Session[name].Sensitive) {
				session.put(name, value(v))
			}
			continue
		}
		if v, ok := t.Slots[e.Slot]; ok && !v.IsNone() && !x.sensitive(e.Slot) && e.Flow == shownFlow(t) {
			slots.put(e.Slot, value(v))
		}
	}
	for _, of := range []struct {
		name string
		m    *mapping
	}{{"slots", slots}, {"session", session}} {
		if len(of.m.n.Content) > 0 {
			of.m.n.Style = yaml.FlowStyle
			m.put(of.name, of.m.node())
		}
	}
}

// shownFlow is the flow whose slots a turn has: the active one, or that which ended last.
func shownFlow(t *assistants.Turn) string {
	if n := len(t.Stack); n > 0 {
		return t.Stack[n-1].Flow
	}
	for _, e := range slices.Backward(t.Trace) {
		if strings.HasPrefix(e.Kind, "flow_") {
			return e.Flow
		}
	}
	return ""
}

// did writes which actions ran, and which commands were refused.
func (x *exporter) did(m *mapping, t *assistants.Turn) {
	calls := []string{}
	args := newMap()
	for _, a := range t.Actions {
		for range max(a.Attempts, 1) {
			calls = append(calls, a.Action)
		}
		if a.Effect == program.Read {
			continue
		}
		in := newMap()
		for _, name := range slices.Sorted(maps.Keys(a.Inputs)) {
			if v := a.Inputs[name]; !x.sensitive(name) && !masked(v) {
				in.put(name, value(v))
			}
		}
		if len(in.n.Content) > 0 {
			in.n.Style = yaml.FlowStyle
			args.put(a.Action, in.node())
		}
	}
	if len(calls) > 0 || strings.HasPrefix(t.Waiting, "confirm:") {
		m.put("calls", texted(calls))
	}
	if len(args.n.Content) > 0 {
		m.put("call_args", args.node())
	}
	var ignored []string
	for _, e := range t.Trace {
		if e.Kind == "command_ignored" && !slices.Contains(ignored, e.Reason) {
			ignored = append(ignored, e.Reason)
		}
	}
	if len(ignored) > 0 {
		m.put("ignored", texted(ignored))
	}
}

// slot returns a slot of a name, the sensitive one if there are several.
func (x *exporter) slot(name string) *program.Slot {
	if key, ok := strings.CutPrefix(name, "session."); ok {
		return x.p.Session[key]
	}
	found := x.p.Slots[name]
	for _, flow := range slices.Sorted(maps.Keys(x.p.Flows)) {
		if s := x.p.Flows[flow].Slots[name]; s != nil && (found == nil || s.Sensitive && !found.Sensitive) {
			found = s
		}
	}
	return found
}

func (x *exporter) sensitive(name string) bool {
	s := x.slot(name)
	return s != nil && s.Sensitive
}

// maskSign is what a masked text has.
var maskSign = regexp.MustCompile(`\*{2,}`)

// masked says whether something in a value may be masked.
func masked(v expr.Value) bool { return maskSign.MatchString(v.String()) }

// count returns a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// mapping is a map of YAML in the order in which it is written.
type mapping struct{ n yaml.Node }

func newMap() *mapping { return &mapping{yaml.Node{Kind: yaml.MappingNode}} }

func (m *mapping) node() *yaml.Node {
	if len(m.n.Content) == 0 {
		m.n.Style = yaml.FlowStyle
	}
	return &m.n
}

// put sets a key.
func (m *mapping) put(key string, v *yaml.Node) *mapping {
	for i := 0; i+1 < len(m.n.Content); i += 2 {
		if m.n.Content[i].Value == key {
			m.n.Content[i+1] = v
			return m
		}
	}
	m.n.Content = append(m.n.Content, textNode(key), v)
	return m
}

func (m *mapping) text(key, text string) *mapping { return m.put(key, textNode(text)) }

func plainNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// textNode is a text, quoted where it could be something else.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if v := yamlvalue.Scalar(plainNode(text)); v.Kind() != expr.Text {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// texted is a list of texts: in one line, unless they are long.
func texted(list []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	length := 0
	for _, text := range list {
		n.Content = append(n.Content, textNode(text))
		if length += len(text) + 2; length > 60 || strings.Contains(text, "\n") {
			n.Style = 0
		}
	}
	return n
}

// value writes a value: lists and maps in one line, unless they are long.
func value(v expr.Value) *yaml.Node {
	switch v.Kind() {
	case expr.Text:
		return textNode(v.String())
	case expr.List:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v.Items() {
			n.Content = append(n.Content, value(item))
		}
		return inLine(n, v)
	case expr.Object:
		m := newMap()
		for _, k := range v.Keys() {
			item, _ := v.Get(k)
			m.put(k, value(item))
		}
		return inLine(m.node(), v)
	case expr.None:
		return plainNode("null")
	}
	return plainNode(v.String())
}

func inLine(n *yaml.Node, v expr.Value) *yaml.Node {
	if len(v.String()) < 120 {
		n.Style = yaml.FlowStyle
	}
	return n
}

// sameYAML says whether two nodes say the same.
func sameYAML(a, b *yaml.Node) bool { return yamlvalue.Of(a).Same(yamlvalue.Of(b)) }
