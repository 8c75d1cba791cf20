package vendor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plainjson"
	"github.com/superstep-dev/superstep/model"
)

// Turn is what one side says until the other does.
type Turn[B any] struct {
	Role    chat.Role `json:"role"` // the user's or the assistant's
	Content []B       `json:"content"`
}

// Turns makes turns of a conversation, as most APIs want it: messages of one side that
// follow one another become one turn, in which the results of tools come first, as they
// answer the turn before. B is a piece of content.
type Turns[B any] struct {
	Provider string
	Able     Able

	Text  func(text string) B
	Empty func(text string) bool                               // nothing is sent for such a text
	Media func(p chat.Part, where string) (B, error)           // of an image, a sound or a file
	Said  func(m chat.Message) ([]B, error)                    // of the model's message
	Tool  func(m chat.Message, r chat.ToolResult) ([]B, error) // of what a tool returned

	// Whole completes what one side has said, if it isn't nil.
	Whole func(turn []B) []B

	// Mark puts a point of the cache behind the last piece of a list that can have one,
	// and reports whether one has. It is nil for an API that takes no points.
	Mark func(list []B, p *CachePoint) ([]B, bool)

	System []B
	Turns  []Turn[B]

	results, content []B // of the turn that hasn't ended
	role             chat.Role
}

// The places of parts, for errors.
const (
	ofUser      = "a message of the user"
	OfTool      = "the result of a tool"
	OfAssistant = "a message of the assistant"
)

// Add adds a conversation, with the points after its messages.
func (t *Turns[B]) Add(list []chat.Message, points map[int][]CachePoint) error {
	last := Last(list)
	for i, m := range list {
		for _, piece := range Pieces(m, points[i]) {
			if err := t.add(piece.Message, i < last); err != nil {
				return Invalid(t.Provider, "Messages[%d]: %w", i, err)
			}
			if piece.Cache != nil && t.Mark != nil {
				t.mark(piece.Cache, m.Role)
			}
		}
	}
	t.flush()
	if len(t.Turns) == 0 {
		return Invalid(t.Provider, "Messages has nothing but messages of the system, or nothing at all")
	}
	return nil
}

// add adds a message. Of the user's old ones the media that can't be sent are told.
func (t *Turns[B]) add(m chat.Message, old bool) error {
	var more []B
	var err error
	switch m.Role {
	case chat.RoleSystem:
		for _, p := range m.Parts {
			if _, ok := p.(chat.Text); !ok {
				return Misplaced(p, "a message of the system")
			}
		}
		more, err = t.Pieces(m.Parts, "", false)
		t.System = append(t.System, more...)
	case chat.RoleUser:
		t.speaker(chat.RoleUser)
		more, err = t.Pieces(m.Parts, ofUser, old)
		t.content = append(t.content, more...)
	case chat.RoleTool:
		t.speaker(chat.RoleUser)
		for _, p := range m.Parts {
			r, ok := p.(chat.ToolResult)
			if !ok {
				return Misplaced(p, "a message of a tool")
			}
			if more, err = t.Tool(m, r); err != nil {
				return err
			}
			t.results = append(t.results, more...)
		}
	case chat.RoleAssistant:
		t.speaker(chat.RoleAssistant)
		more, err = t.Said(m)
		t.content = append(t.content, more...)
	default:
		err = fmt.Errorf("role %q is not supported", m.Role)
	}
	return err
}

// Pieces maps texts and media. If tell, media that can't be sent are told: nobody could
// take them out of the conversation, which would fail for ever.
func (t *Turns[B]) Pieces(parts []chat.Part, where string, tell bool) (out []B, err error) {
	for _, p := range parts {
		if text, ok := p.(chat.Text); ok {
			if !t.Empty(text.Text) {
				out = append(out, t.Text(text.Text))
			}
			continue
		}
		if !Media(p) {
			return nil, Misplaced(p, where)
		}
		b, err := t.Media(p, where)
		if tell && err == nil {
			err = t.Able.Untaken(p)
		}
		if tell && err != nil {
			b, err = t.Text(Told(p, err)), nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func (t *Turns[B]) speaker(r chat.Role) {
	if r != t.role {
		t.flush()
		t.role = r
	}
}

func (t *Turns[B]) flush() {
	all := append(t.results, t.content...)
	t.results, t.content = nil, nil
	if len(all) == 0 {
		return
	}
	if n := len(t.Turns); n > 0 && t.Turns[n-1].Role == t.role { // the other side had nothing to say
		all = append(t.Turns[n-1].Content, all...)
		t.Turns = t.Turns[:n-1]
	}
	if t.Whole != nil {
		all = t.Whole(all)
	}
	t.Turns = append(t.Turns, Turn[B]{t.role, all})
}

// mark puts a point behind what has been said. Before all of it there is nothing to keep.
func (t *Turns[B]) mark(p *CachePoint, role chat.Role) {
	lists := []*[]B{&t.content, &t.results}
	switch role {
	case chat.RoleSystem:
		lists = []*[]B{&t.System}
	case chat.RoleTool:
		slices.Reverse(lists)
	}
	if role != chat.RoleSystem {
		for i := range slices.Backward(t.Turns) {
			lists = append(lists, &t.Turns[i].Content)
		}
	}
	for _, list := range lists {
		var done bool
		if *list, done = t.Mark(*list, p); done {
			return
		}
	}
}

// Blank reports whether a text says nothing: some APIs refuse empty texts, and those of
// white space alone, though their models write them.
func Blank(text string) bool { return strings.TrimSpace(text) == "" }

// Arguments returns those of a call: an object, also if the model wrote none, so that it
// can read what it wrote.
func Arguments(c chat.ToolCall) (json.RawMessage, error) {
	args, err := c.Arguments()
	if err == nil {
		return args, nil
	}
	if args, err = plainjson.Marshal(map[string]string{"INVALID_JSON": c.Args}); err != nil {
		return nil, fmt.Errorf("arguments of tool call %q: %w", c.ID, err)
	}
	return args, nil
}

// SchemaOf returns the schema of a tool's arguments, for APIs that need one.
func SchemaOf(t chat.ToolSpec) json.RawMessage {
	if t.Schema == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}

// CheckTools checks the tools of a request, and that the choice is one of them: of any
// tool if there is one, and by name of one that there is.
func CheckTools(provider string, req *model.Request) error {
	var names []string
	for _, t := range req.Tools {
		if t.Schema != nil && !IsObject(t.Schema) {
			return Invalid(provider, "the schema of tool %q is not a JSON object", t.Name)
		}
		names = append(names, t.Name)
	}
	switch c := req.ToolChoice; {
	case c == model.ToolAuto, c == model.ToolNone:
	case len(names) == 0 && c == model.ToolRequired:
		return Invalid(provider, "ToolChoice requires a tool, without tools to choose from")
	case len(names) == 0:
		return Invalid(provider, "ToolChoice %q without tools", c)
	case c != model.ToolRequired && !slices.Contains(names, string(c)):
		return Invalid(provider, "ToolChoice %q is none of the tools %s", c, strings.Join(names, ", "))
	}
	return nil
}

// Body is the JSON of a request with fields of the user's; see [Extend].
func Body(provider string, request any, extra map[string]any, given map[string]string) ([]byte, error) {
	body, err := plainjson.Marshal(request)
	if err != nil {
		return nil, Invalid(provider, "the request has no JSON: %w", err)
	}
	if body, err = Extend(body, extra, given); err != nil {
		return nil, Invalid(provider, "%w", err)
	}
	return body, nil
}
