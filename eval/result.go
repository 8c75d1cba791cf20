package eval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// Result is what came of one run of a case.
type Result struct {
	// Output is the answer, in JSON: a string if it is text.
	Output json.RawMessage `json:"output,omitempty"`

	// State is the whole final state of a graph. Reports don't keep it.
	State json.RawMessage `json:"-"`

	// Messages is the conversation as far as the run made it.
	Messages []chat.Message `json:"messages,omitempty"`

	Usage agent.Usage `json:"usage,omitempty"`

	// Cost follows from Usage and Messages by the prices that Run was given, unless the
	// target sets it.
	Cost Cost `json:"cost"`

	// Latency is how long the run took, in JSON in nanoseconds. Run measures it unless the
	// target sets it.
	Latency time.Duration `json:"latency_ns"`

	Thread string `json:"thread,omitempty"` // where the run can be looked at
}

// Text returns the output if it is a string, and its JSON otherwise.
func (r *Result) Text() string {
	var text string
	if json.Unmarshal(r.Output, &text) == nil {
		return text
	}
	return string(r.Output)
}

// Calls returns the calls of tools, in the order in which the model made them.
func (r *Result) Calls() []Call {
	var out []Call
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls() {
			args, err := c.Arguments()
			if err != nil {
				args, _ = json.Marshal(c.Args)
			}
			out = append(out, Call{c.Name, args})
		}
	}
	return out
}

// Cost is what models cost, in the currency of the prices: dollars for those of
// [model.KnownModels].
type Cost struct {
	Known float64 `json:"known"`

	// Unknown says of which models the cost isn't known, and why. It is then more than
	// what is known.
	Unknown []string `json:"unknown,omitempty"`
}

// Add returns the sum.
func (c Cost) Add(d Cost) Cost {
	all := slices.Concat(c.Unknown, d.Unknown)
	slices.Sort(all)
	return Cost{c.Known + d.Known, slices.Compact(all)}
}

func (c Cost) String() string {
	known := strconv.FormatFloat(c.Known, 'f', 6, 64)
	known = strings.TrimSuffix(strings.TrimRight(known, "0"), ".")
	switch why := strings.Join(c.Unknown, ", "); {
	case why == "":
		return known
	case c.Known == 0:
		return "unknown (" + why + ")"
	default:
		return fmt.Sprintf("%s and an unknown rest (%s)", known, why)
	}
}

// noUsage begins what is said of a model that doesn't tell what it used.
const noUsage = "no usage from"

// costOf prices what was used, and says which answers of models can't be priced.
func costOf(u agent.Usage, messages []chat.Message, prices model.Table) (cost Cost) {
	unknown := func(why, name string) {
		cost.Unknown = append(cost.Unknown, fmt.Sprintf("%s %s", why, cmp.Or(name, "an unnamed model")))
	}
	for _, x := range u {
		if p, ok := prices.Prices(x.Model)[x.Model]; x.Usage == (chat.Usage{}) {
			unknown(noUsage, x.Model)
		} else if ok {
			cost.Known += p.Cost(x.Usage)
		} else {
			unknown("no price for", x.Model)
		}
	}
	for _, m := range messages {
		// An answer that names no model may be the program's own; if nothing else was
		// counted, it rather is that of a model that doesn't tell.
		if m.Role == chat.RoleAssistant && m.Usage == nil && (m.Model != "" || len(u) == 0) {
			unknown(noUsage, m.Model)
		}
	}
	return cost.Add(Cost{})
}

// StateResult returns the result of a graph that ended in a state, given in JSON. The
// output is the graph's, if it has a type for that; else the structured answer of an
// agent; else, if the state has messages, the text of the last answer; else the state.
// Messages that were part of the case's input are left out.
func StateResult(c Case, state, output json.RawMessage) (Result, error) {
	r := Result{State: state, Output: output}
	var s struct {
		Messages   json.RawMessage `json:"messages"`
		Usage      agent.Usage     `json:"model_usage"`
		Structured json.RawMessage `json:"structured_response"`
	}
	if !conversation(state, &s.Messages) {
		if output == nil {
			r.Output = state
		}
		return r, nil
	}
	if err := json.Unmarshal(state, &s); err != nil {
		return r, fmt.Errorf("the state of the graph: %w", err)
	}
	if err := json.Unmarshal(s.Messages, &r.Messages); err != nil {
		return r, fmt.Errorf("the messages of the state: %w", err)
	}
	var given json.RawMessage
	var before []chat.Message
	if conversation(c.Input, &given) && json.Unmarshal(given, &before) == nil {
		n := 0
		for n < len(before) && n < len(r.Messages) && before[n].Role == r.Messages[n].Role && before[n].Text() == r.Messages[n].Text() {
			n++
		}
		r.Messages = r.Messages[n:]
	}
	var began struct {
		Usage agent.Usage `json:"model_usage"`
	}
	_ = json.Unmarshal(c.Input, &began)                       // an input without it may be anything
	if r.Usage = s.Usage.Since(began.Usage); s.Usage == nil { // a state that doesn't count
		for _, m := range r.Messages {
			r.Usage = append(r.Usage, agent.UsedBy("", &model.Response{Message: m})...)
		}
	}
	switch {
	case output != nil:
	case len(s.Structured) > 0 && string(s.Structured) != "null":
		r.Output = s.Structured
	default:
		answer := ""
		for _, m := range slices.Backward(r.Messages) {
			if m.Role == chat.RoleAssistant {
				answer = m.Text()
				break
			}
		}
		r.Output, _ = json.Marshal(answer)
	}
	return r, nil
}

// conversation finds the messages of a state: a list of objects under that name.
func conversation(state json.RawMessage, messages *json.RawMessage) bool {
	var s struct {
		Messages json.RawMessage `json:"messages"`
	}
	var list []json.RawMessage
	if json.Unmarshal(state, &s) != nil || json.Unmarshal(s.Messages, &list) != nil || s.Messages == nil || string(s.Messages) == "null" {
		return false
	}
	*messages = s.Messages
	return !slices.ContainsFunc(list, func(m json.RawMessage) bool { return !bytes.HasPrefix(m, []byte("{")) })
}

// StateInput returns the input of a case as an update of a graph's state: a string as a
// message of the user.
func StateInput(c Case) json.RawMessage {
	text, ok := c.Text()
	if !ok {
		return c.Input
	}
	h := chat.Of(chat.User(text))
	data, _ := json.Marshal(map[string]*chat.History{"messages": &h})
	return data
}
