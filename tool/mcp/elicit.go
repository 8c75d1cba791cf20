package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/goschema"
	"github.com/superstep-dev/superstep/tool"
)

// Elicitation is what a server asks a person during a request.
type Elicitation struct {
	Server  string `json:"server"` // name
	During  string `json:"during"` // the request, such as `tool "book"`
	Message string `json:"message"`

	// Schema is the JSON Schema of the form to fill in, an object of one level.
	Schema json.RawMessage `json:"schema,omitempty"`

	// URL is a page where the person does something with the server, such as to log
	// in, in the place of a form; accept it when that is done. Show where it
	// leads, and let nothing but the person open it.
	URL string `json:"url,omitempty"`
}

// ElicitationAction is what a person did with a question.
type ElicitationAction string

// The actions.
const (
	Accept  ElicitationAction = "accept"  // filled in the form, or did what is to be done on the page
	Decline ElicitationAction = "decline" // said no
	Cancel  ElicitationAction = "cancel"  // put it away without a choice
)

// ElicitationAnswer is a person's answer. Content has what was filled into the form,
// an object, when it was accepted; fields that have a default may be left out.
type ElicitationAnswer struct {
	Action  ElicitationAction `json:"action"`
	Content json.RawMessage   `json:"content,omitempty"`
}

// ElicitationKey is the key of the question that [Ask] asks.
const ElicitationKey = "elicitation"

// Ask is a function for [Config.Elicit] that asks by [graph.Interrupt], whose value is
// the Elicitation: the run ends with a question, and when that has its answer, be it
// after days and in another process, the node runs again and so does the request. An
// answer that doesn't fit the form is refused, and the question waits as before.
//
// A server of the protocol of 2026-07-28 or newer says what it needs and where it was,
// which is recorded: it goes on from there. One of an older protocol asks while it
// works: its work is cancelled, and done again from its beginning with the answers that
// there are, as many times as it asks. What it did before it asked, it does again.
//
// Outside of a node it returns [graph.ErrNotInNode].
func Ask(ctx context.Context, e Elicitation) (ElicitationAnswer, error) {
	schema, err := e.AnswerSchema()
	if err != nil {
		return ElicitationAnswer{}, err
	}
	return graph.Interrupt[ElicitationAnswer](ctx, ElicitationKey, e, graph.AnswerSchema(schema))
}

// AnswerSchema returns the JSON Schema of the answer, for functions that ask otherwise
// than [Ask], such as with a [graph.Deadline].
func (e Elicitation) AnswerSchema() (json.RawMessage, error) {
	type object = map[string]any
	properties := object{"action": object{"enum": []ElicitationAction{Accept, Decline, Cancel}}}
	schema := object{"type": "object", "required": []string{"action"}, "additionalProperties": false, "properties": properties}
	if e.Schema != nil {
		var s jsonschema.Schema
		if err := json.Unmarshal(e.Schema, &s); err != nil {
			return nil, fmt.Errorf("mcp: the form that server %q asks for: %w", e.Server, err)
		}
		s.ID, s.Schema = "", "" // it is a part now
		properties["content"] = object{"anyOf": []any{&s, object{"type": "null"}}}
		if len(s.Required) > 0 {
			schema["if"] = object{"properties": object{"action": object{"const": Accept}}}
			schema["then"] = object{"required": []string{"content"}, "properties": object{"content": &s}}
		}
	}
	return json.Marshal(schema)
}

// elicit asks a person what the server wants to know.
func (k *inquiry) elicit(p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	if k.c.cfg.Elicit == nil {
		return nil, k.refuse(errors.New("it asks a person, which it was told that this client can't: set Config.Elicit if one is to be asked"))
	}
	e := Elicitation{Server: k.c.plainName(), During: k.during, Message: p.Message, URL: p.URL}
	var form *goschema.Schema
	switch mode := p.Mode; {
	case mode == "url", mode == "" && p.URL != "":
		if p.URL == "" || p.RequestedSchema != nil {
			return nil, k.refuse(errors.New("it asks to have a page opened, and gives no URL or a form as well: report it to who made it"))
		}
	case mode == "form", mode == "":
		var err error
		if e.Schema, form, err = formOf(p.RequestedSchema); err != nil {
			return nil, k.refuse(fmt.Errorf("it asks a person for a form that is wrong: %w: report it to who made it", err))
		}
	default:
		return nil, k.refuse(fmt.Errorf("it asks a person in the mode %q, which this client doesn't know: use a newer version of it", mode))
	}
	ctx, err := k.scoped("elicit", e.Message, string(e.Schema), e.URL)
	if err != nil {
		return nil, err
	}
	a, err := k.c.cfg.Elicit(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("mcp: server %s, during %s, asks a person: %w", k.c.server, k.during, err)
	}
	res := &sdk.ElicitResult{Action: string(a.Action)}
	switch {
	case a.Action == Decline, a.Action == Cancel:
	case a.Action != Accept:
		return nil, k.refuse(fmt.Errorf("Config.Elicit answered with the action %q: want accept, decline or cancel", a.Action))
	case form != nil:
		if err := form.Read(a.Content, &res.Content); err != nil {
			return nil, k.refuse(fmt.Errorf("Config.Elicit answered with content that doesn't fit the form: %w", err))
		}
	}
	return res, nil
}

// formOf returns the schema of a form.
func formOf(schema any) (json.RawMessage, *goschema.Schema, error) {
	if schema == nil {
		schema = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, nil, err
	}
	if err := tool.CheckSchema("form", raw); err != nil {
		return nil, nil, err
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, nil, err
	}
	form, err := goschema.Complete(s, false)
	if err != nil {
		return nil, nil, err
	}
	if s.Defs != nil || s.Ref != "" {
		return nil, nil, errors.New("it has references, and forms have one level")
	}
	for name, p := range s.Properties {
		if p.Properties != nil || p.Ref != "" || p.Type == "object" {
			return nil, nil, fmt.Errorf("its field %q is nested, and forms have one level", name)
		}
	}
	return raw, form, nil
}

// pagesOf returns the pages that have to be opened before the server does anything,
// if that is what an error says.
func pagesOf(err error) ([]*sdk.ElicitParams, bool) {
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != sdk.CodeURLElicitationRequired {
		return nil, false
	}
	var data struct {
		Elicitations []*sdk.ElicitParams `json:"elicitations"`
	}
	if json.Unmarshal(e.Data, &data) != nil || len(data.Elicitations) == 0 {
		return nil, false
	}
	for _, p := range data.Elicitations {
		if p == nil || p.URL == "" {
			return nil, false
		}
	}
	return data.Elicitations, true
}

// visit has a person do what there is to be done on some pages.
func (k *inquiry) visit(pages []*sdk.ElicitParams) error {
	var errs []error
	for _, p := range pages {
		res, err := k.elicit(p)
		if err == nil && res.Action != string(Accept) {
			err = k.failure(errors.New("it needs the user to open a page first, which the user didn't want"))
		}
		errs = append(errs, err)
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, graph.ErrInterrupted) {
			return err
		}
	}
	return errors.Join(errs...)
}
