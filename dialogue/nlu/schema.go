package nlu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/internal/plainjson"
)

// schema is a JSON Schema. It keeps to what all providers take, OpenAI's strict mode too:
// every object is closed and requires all its members.
type schema struct {
	Type       any                `json:"type,omitempty"`
	Enum       []string           `json:"enum,omitempty"`
	Format     string             `json:"format,omitempty"`
	AnyOf      []*schema          `json:"anyOf,omitempty"`
	Items      *schema            `json:"items,omitempty"`
	Properties *members           `json:"properties,omitempty"`
	Required   *[]string          `json:"required,omitempty"`
	Closed     *bool              `json:"additionalProperties,omitempty"`
	Ref        string             `json:"$ref,omitempty"`
	Defs       map[string]*schema `json:"$defs,omitempty"`
}

// members are the properties of an object in their order, which models follow.
type members []member

type member struct {
	name string
	form *schema
}

// MarshalJSON writes the members in their order.
func (m members) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, x := range m {
		if i > 0 {
			out = append(out, ',')
		}
		for n, v := range []any{x.name, x.form} {
			text, err := plainjson.Marshal(v)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				out = append(out, ':')
			}
			out = append(out, text...)
		}
	}
	return append(out, '}'), nil
}

func object(m ...member) *schema {
	if m == nil {
		m = []member{}
	}
	closed := false
	s := &schema{Type: "object", Properties: (*members)(&m), Closed: &closed, Required: &[]string{}}
	for _, x := range m {
		*s.Required = append(*s.Required, x.name)
	}
	return s
}

func oneOf(values ...string) *schema { return &schema{Type: "string", Enum: values} }

func list(items *schema) *schema { return &schema{Type: "array", Items: items} }

func ref(name string) *schema { return &schema{Ref: "#/$defs/" + name} }

func typed(t dialogue.CommandType) member { return member{"type", oneOf(string(t))} }

// nullable has a text be null instead.
func nullable(s *schema) *schema {
	return &schema{AnyOf: []*schema{s, {Type: "null"}}}
}

// schema returns the form of an answer.
func (s *scope) schema() *schema {
	var forms []*schema
	var plain []string
	for _, c := range s.possible() {
		t := c.CommandType
		switch t {
		case dialogue.StartFlow:
			m := []member{typed(t), {"flow", ref("flow")}}
			if len(s.offers()) > 0 {
				m = append(m, member{"slots", list(ref("value"))})
			}
			forms = append(forms, object(m...))
		case dialogue.SetSlot:
			forms = append(forms, object(typed(t), member{"slots", list(ref("value"))}))
		case dialogue.ClearSlot:
			forms = append(forms, object(typed(t), member{"slot", oneOf(s.filled()...)}))
		case dialogue.Deny:
			if shown := s.shown(); len(shown) > 0 {
				forms = append(forms, object(typed(t), member{"slot", nullable(oneOf(shown...))}))
			} else {
				plain = append(plain, string(t))
			}
		case dialogue.Select:
			forms = append(forms, object(typed(t), member{"option", oneOf(s.options()...)}))
		case dialogue.ResumeFlow:
			forms = append(forms, object(typed(t), member{"flow", oneOf(s.paused()...)}))
		case dialogue.Clarify:
			if strings.Contains(c.form, "options") {
				forms = append(forms, object(typed(t), member{"options", list(ref("flow"))}))
			} else if names := namesOf(s.in.Slots); len(names) > 0 {
				forms = append(forms, object(typed(t), member{"topic", nullable(oneOf(names...))}))
			} else {
				plain = append(plain, string(t))
			}
		case own:
			for _, x := range s.in.Commands {
				var inputs []member
				for _, i := range x.Slots {
					form := valueForm(dialogue.SlotOffer{Type: i.Type})
					if i.Optional {
						form = nullable(form)
					}
					inputs = append(inputs, member{i.Name, form})
				}
				forms = append(forms, object(typed(x.Type), member{"slots", object(inputs...)}))
			}
		case dialogue.AskQuestion:
			forms = append(forms, object(typed(t), member{"topic", &schema{Type: "string"}}))
		case dialogue.SetLanguage:
			forms = append(forms, object(typed(t), member{"language", oneOf(s.in.Languages...)}))
		default:
			plain = append(plain, string(t))
		}
	}
	forms = append(forms, object(member{"type", oneOf(plain...)}))
	root := object(member{"commands", list(&schema{AnyOf: forms})})
	root.Defs = map[string]*schema{}
	if names := s.flowNames(); len(names) > 0 {
		root.Defs["flow"] = oneOf(names...)
	}
	if len(s.offers()) > 0 {
		root.Defs["value"] = s.valueForms()
	}
	return root
}

// valueForms returns the form of a slot with its value: a choice for each type of values.
func (s *scope) valueForms() *schema {
	type group struct {
		form  *schema
		key   string
		slots []string
	}
	var groups []*group
	for _, o := range s.offers() {
		if len(o.Options) > mostOptions {
			o.Options = nil
		}
		form := valueForm(o)
		key := fmt.Sprintf("%v %q %q %+v", form.Type, form.Format, form.Enum, form.Items)
		i := slices.IndexFunc(groups, func(g *group) bool { return g.key == key })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{form: form, key: key})
		}
		if g := groups[i]; !slices.Contains(g.slots, o.Name) {
			g.slots = append(g.slots, o.Name)
		}
	}
	forms := make([]*schema, len(groups))
	for i, g := range groups {
		forms[i] = object(member{"slot", oneOf(g.slots...)}, member{"value", g.form})
	}
	if len(forms) == 1 {
		return forms[0]
	}
	return &schema{AnyOf: forms}
}

// valueForm returns the form of a slot's value.
func valueForm(o dialogue.SlotOffer) *schema {
	switch {
	case len(o.Options) > 0 && o.Type != program.List:
		return oneOf(o.Options...)
	case o.Type == program.Date:
		return &schema{Type: "string", Format: "date"}
	case o.Type == program.List:
		return list(valueForm(dialogue.SlotOffer{Type: o.Items, Options: o.Options}))
	case o.Type == program.Number, o.Type == program.Integer, o.Type == program.Boolean:
		return &schema{Type: string(o.Type)}
	}
	return &schema{Type: "string"} // objects as their JSON
}
