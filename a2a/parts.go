package a2a

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/client"
	"github.com/superstep-dev/superstep/internal/goschema"
)

type object = map[string]json.RawMessage

// input returns what a graph is given for a message: the members of its data, and a
// message of a person with its texts and files.
func input(schema json.RawMessage, m *proto.Message) (object, error) {
	var takes struct {
		Properties object `json:"properties"`
	}
	_ = json.Unmarshal(schema, &takes) // one that can't be read says nothing
	in := object{}
	said := chat.Message{Role: chat.RoleUser, ID: m.ID}
	for _, p := range m.Parts {
		if p == nil {
			return nil, refuse(proto.ErrInvalidParams, "a part is null")
		}
		data, isData := p.Content.(proto.Data)
		if !isData {
			said.Parts = append(said.Parts, spoken(p))
			continue
		}
		members, err := membersOf(data.Value)
		if err != nil {
			return nil, refuse(proto.ErrInvalidParams, "a part of data must be an object with fields of the graph's input: %s", named(takes.Properties))
		}
		for name := range members {
			if in[name] != nil {
				return nil, refuse(proto.ErrInvalidParams, "%.100q is given twice", name)
			}
		}
		maps.Copy(in, members)
	}
	if len(said.Parts) == 0 {
		return in, nil
	}
	if takes.Properties["messages"] == nil {
		return nil, refuse(proto.ErrUnsupportedContentType, "this agent takes no text and no files, but a part of data with %s", named(takes.Properties))
	}
	if in["messages"] != nil {
		return nil, refuse(proto.ErrInvalidParams, "messages are given as data and as text")
	}
	data, err := json.Marshal([]chat.Message{said})
	if err != nil {
		return nil, refuse(proto.ErrInvalidParams, "%v", err)
	}
	in["messages"] = data
	return in, nil
}

func named(fields object) string {
	if len(fields) == 0 {
		return "what it takes"
	}
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

// spoken returns a text or a file as a part of a message.
func spoken(p *proto.Part) chat.Part {
	switch c := p.Content.(type) {
	case proto.Raw:
		return fileOf(chat.Source{Data: c, MIME: p.MediaType}, p.Filename)
	case proto.URL:
		return fileOf(chat.Source{URL: string(c), MIME: p.MediaType}, p.Filename)
	}
	return chat.Text{Text: p.Text()}
}

func fileOf(s chat.Source, name string) chat.Part {
	switch kind, _, _ := strings.Cut(s.MIME, "/"); kind {
	case "image":
		return chat.Image{Source: s}
	case "audio":
		return chat.Audio{Source: s}
	}
	return chat.File{Source: s, Name: name}
}

func membersOf(v any) (object, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil || o == nil {
		return nil, fmt.Errorf("not an object")
	}
	return o, nil
}

// asked returns questions as parts: each as data, with its ID, key, schema and value, and
// as text if it is one.
func asked(questions []client.Interrupt) []*proto.Part {
	var parts []*proto.Part
	for _, q := range questions {
		var text string
		if json.Unmarshal(q.Value, &text) == nil && text != "" {
			parts = append(parts, proto.NewTextPart(text))
		}
		parts = append(parts, proto.NewDataPart(q))
	}
	return parts
}

// answersTo returns the answers to questions that the parts of a message are: to one, a
// text or any data; to several, data with an answer for each, by ID or key.
func answersTo(questions []client.Interrupt, parts []*proto.Part) (object, error) {
	if len(parts) != 1 || parts[0] == nil {
		return nil, refuse(proto.ErrInvalidParams, "an answer is one part, a text or data")
	}
	given := object{}
	switch c := parts[0].Content.(type) {
	case proto.Text:
		if len(questions) != 1 {
			return nil, refuse(proto.ErrInvalidParams, "%d questions are open: answer with data that has an answer for each, by its id or key", len(questions))
		}
		text, _ := json.Marshal(string(c)) // of a string
		q := questions[0]
		if fits(q.Schema, text) != nil && json.Valid([]byte(c)) { // such as true, or a number
			text = []byte(c)
		}
		given[q.ID] = text
	case proto.Data:
		data, err := json.Marshal(c.Value)
		if err != nil {
			return nil, refuse(proto.ErrInvalidParams, "%v", err)
		}
		if len(questions) == 1 {
			q := questions[0]
			given[q.ID] = data
			// It may be named all the same.
			if o, err := membersOf(c.Value); err == nil && len(o) == 1 && (o[q.ID] != nil || o[q.Key] != nil && fits(q.Schema, data) != nil) {
				for _, v := range o {
					given[q.ID] = v
				}
			}
			break
		}
		named, err := membersOf(c.Value)
		if err != nil {
			return nil, refuse(proto.ErrInvalidParams, "%d questions are open: answer with an object that has an answer for each, by its id or key", len(questions))
		}
		for name, v := range named {
			var of []string
			for _, q := range questions {
				if q.ID == name || q.Key == name {
					of = append(of, q.ID)
				}
			}
			if len(of) != 1 || given[of[0]] != nil {
				return nil, refuse(proto.ErrInvalidParams, "%.100q names %d open questions, or one that is answered twice", name, len(of))
			}
			given[of[0]] = v
		}
	default:
		return nil, refuse(proto.ErrUnsupportedContentType, "an answer is a text or data")
	}
	for _, q := range questions {
		if v := given[q.ID]; v != nil {
			if err := fits(q.Schema, v); err != nil {
				return nil, refuse(proto.ErrInvalidParams, "the answer to %q has another shape than its schema: %v", q.Key, err)
			}
		}
	}
	return given, nil
}

// fits reports why a value is not what a schema says.
func fits(schema, value json.RawMessage) error {
	if len(schema) == 0 || bytes.Equal(schema, []byte("null")) {
		return nil
	}
	return goschema.Check(schema, value)
}

// event returns what a run tells as an event of the protocol; nil if it is none. Pieces
// of a message are an artifact with the message's ID, custom events data of a status.
func event(t *task, ev client.Event, begun map[proto.ArtifactID]bool) proto.Event {
	switch ev.Name {
	case "custom":
		var v any
		if json.Unmarshal(ev.Data, &v) != nil {
			return nil
		}
		return proto.NewStatusUpdateEvent(t, proto.TaskStateWorking, proto.NewMessageForTask(proto.MessageRoleAgent, t, proto.NewDataPart(v)))
	case "messages":
		var pair []json.RawMessage
		var m chat.Message
		if json.Unmarshal(ev.Data, &pair) != nil || len(pair) == 0 || json.Unmarshal(pair[0], &m) != nil {
			return nil
		}
		parts := words(m)
		if m.Role != chat.RoleAssistant || m.ID == "" || len(parts) == 0 {
			return nil
		}
		e := proto.NewArtifactUpdateEvent(t, proto.ArtifactID(m.ID), parts...)
		e.Append, e.Artifact.Name = begun[e.Artifact.ID], "message"
		begun[e.Artifact.ID] = true
		return e
	}
	return nil
}

// words returns what a message says, without calls of tools and reasoning.
func words(m chat.Message) []*proto.Part {
	var out []*proto.Part
	for _, p := range m.Parts {
		switch p := p.(type) {
		case chat.Text:
			if p.Text != "" {
				out = append(out, proto.NewTextPart(p.Text))
			}
		case chat.Image:
			out = append(out, media(p.Source, ""))
		case chat.Audio:
			out = append(out, media(p.Source, ""))
		case chat.File:
			out = append(out, media(p.Source, p.Name))
		}
	}
	return slices.DeleteFunc(out, func(p *proto.Part) bool { return p == nil })
}

func media(s chat.Source, name string) *proto.Part {
	p := &proto.Part{MediaType: s.MIME, Filename: name}
	switch {
	case s.URL != "":
		p.Content = proto.URL(s.URL)
	case len(s.Data) > 0:
		p.Content = proto.Raw(s.Data)
	default: // an ID that only a provider knows
		return nil
	}
	return p
}

// artifacts returns what a task has made: of a conversation what was said since the last
// message of a person, each message an artifact, and the other fields as data.
func artifacts(values json.RawMessage) []*proto.Artifact {
	var fields object
	var out []*proto.Artifact
	if json.Unmarshal(values, &fields) != nil {
		return nil
	}
	var messages []chat.Message
	if json.Unmarshal(fields["messages"], &messages) == nil {
		delete(fields, "messages")
	}
	for _, m := range messages {
		switch m.Role {
		case chat.RoleUser:
			out = nil
		case chat.RoleAssistant:
			if parts := words(m); len(parts) > 0 && m.ID != "" {
				out = append(out, &proto.Artifact{ID: proto.ArtifactID(m.ID), Name: "message", Parts: parts})
			}
		}
	}
	if len(fields) > 0 {
		out = append(out, &proto.Artifact{ID: "values", Name: "values", Parts: []*proto.Part{proto.NewDataPart(fields)}})
	}
	return out
}
