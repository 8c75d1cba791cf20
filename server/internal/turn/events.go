package turn

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/chat"
)

// Event is something that happens in a run: *[Piece], *[Values], *[Task] or *[Custom].
type Event interface{ event() }

// Piece is a message, or a piece of one.
type Piece struct {
	chat.Message             // what is to be appended to the message with its ID
	Calls        []CallPiece // of tools, to be appended
	Whole        bool        // it is all of the message
}

// CallPiece is a piece of a call. Pieces of a message with one index belong together;
// the ID and the name come in the first.
type CallPiece struct {
	Index int    `json:"index"`
	ID    string `json:"id"`
	Name  string `json:"name"`
	Args  string `json:"args"`
}

// Values is the state of the graph after a superstep.
type Values struct{ JSON json.RawMessage }

// Task is that a node begins or ends.
type Task struct {
	ID     string
	Node   string
	Within []string // the subgraphs that it is in
	Begins bool
	Failed bool
	Raw    json.RawMessage // as the server's own streams have it
}

// Custom is what a node emitted.
type Custom struct {
	Within []string
	Value  json.RawMessage
}

func (*Piece) event()  {}
func (*Values) event() {}
func (*Task) event()   {}
func (*Custom) event() {}

// Modes are the modes of the server's streams that events are made of.
func Modes(tasks bool) []string {
	if tasks {
		return []string{"messages-tuple", "values", "custom", "tasks"}
	}
	return []string{"messages-tuple"}
}

// Decode reads an event of the server's streams; nil for one that is none here.
func Decode(name string, data []byte) (Event, error) {
	name, inside, _ := strings.Cut(name, "|")
	var within []string
	if inside != "" {
		within = strings.Split(inside, "|")
	}
	switch name {
	case "messages":
		var told []json.RawMessage
		if err := json.Unmarshal(data, &told); err != nil || len(told) == 0 {
			return nil, err
		}
		return piece(told[0])
	case "values":
		if within != nil {
			return nil, nil
		}
		return &Values{data}, nil
	case "custom":
		return &Custom{within, data}, nil
	case "tasks":
		var t struct {
			ID       string   `json:"id"`
			Name     string   `json:"name"`
			Triggers []string `json:"triggers"` // of one that begins
			Error    *string  `json:"error"`
		}
		if err := json.Unmarshal(data, &t); err != nil {
			return nil, err
		}
		return &Task{t.ID, t.Name, within, t.Triggers != nil, t.Error != nil, data}, nil
	}
	return nil, nil
}

func piece(raw json.RawMessage) (Event, error) {
	p := &Piece{}
	if err := json.Unmarshal(raw, &p.Message); err != nil {
		return nil, err
	}
	var chunk struct {
		Type  string      `json:"type"`
		Calls []CallPiece `json:"tool_call_chunks"`
	}
	if err := json.Unmarshal(raw, &chunk); err != nil {
		return nil, err
	}
	if chunk.Type == "AIMessageChunk" {
		p.Calls = chunk.Calls
		return p, nil
	}
	p.Whole = true
	for i, c := range p.ToolCalls() {
		p.Calls = append(p.Calls, CallPiece{Index: i, ID: c.ID, Name: c.Name, Args: c.Args})
	}
	return p, nil
}

// EndOf reads what came of a run as the server's own clients are told.
func EndOf(outcome json.RawMessage) (*End, error) {
	var told struct {
		Questions []Question `json:"__interrupt__"`
		Failure   *Failure   `json:"__error__"`
	}
	if err := json.Unmarshal(outcome, &told); err != nil {
		return nil, err
	}
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(outcome, &values); err != nil {
		return nil, err
	}
	delete(values, "__interrupt__")
	delete(values, "__error__")
	data, err := json.Marshal(values)
	return &End{Values: data, Questions: slices.Clip(told.Questions), Failure: told.Failure}, err
}
