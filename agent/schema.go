package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
)

// The fields of [MessagesSchema].
const (
	KeyMessages      = "messages"          // []chat.Message; updates are messages, lists of them and chat.Update
	KeyUserInput     = "user_input"        // string; cleared by the node that answers it
	KeyOneShot       = "one_shot_messages" // []chat.Message; cleared by the node that sends them
	KeyLastResponse  = "last_response"     // string
	KeyNodeResponses = "node_responses"    // map[string]any, by node
	KeyMetadata      = "metadata"          // map[string]any
	KeyStructured    = "structured_response"
	KeyUsage         = "model_usage" // Usage; updates are added
)

// Names that stand for what a run works with and not for state. It is in the
// node's context: the session with session.From, dependencies with graph.Deps,
// where the task stands with graph.Info; answers come by graph.Requests.Answer. A schema
// of [MessagesSchema] refuses updates of these names.
const (
	KeySession        = "session"
	KeyExecContext    = "exec_context"
	KeyToolCallbacks  = "tool_callbacks"
	KeyModelCallbacks = "model_callbacks"
	KeyAgentCallbacks = "agent_callbacks"
	KeyCurrentNode    = "current_node_id"
	KeyParentAgent    = "parent_agent"
	KeyCommand        = "__command__"
	KeyResumeMap      = "__resume_map__"
)

// MessagesSchema returns a schema with the fields that the nodes of this package
// work on, to which others may be added. It is [State] for graphs whose state is
// a map.
func MessagesSchema() *graph.Schema {
	list := graph.Field{Type: reflect.TypeFor[[]chat.Message]()}
	messages := list
	messages.Reducer = graph.ReducerOf(reduceMessages)
	oneShot := list
	oneShot.Reducer = graph.OverrideReducer
	merged := graph.Field{Type: reflect.TypeFor[map[string]any](), Reducer: graph.MergeReducer}
	text := graph.FieldOf("", graph.OverrideReducer)
	return graph.NewSchema().
		AddField(KeyMessages, messages).
		AddField(KeyUserInput, text).
		AddField(KeyOneShot, oneShot).
		AddField(KeyLastResponse, text).
		AddField(KeyNodeResponses, merged).
		AddField(KeyMetadata, merged).
		AddField(KeyStructured, graph.Field{Type: reflect.TypeFor[map[string]any](), Reducer: graph.OverrideReducer}).
		AddField(KeyUsage, graph.Field{Type: reflect.TypeFor[Usage](), Reducer: graph.ReducerOf(reduceUsage), Default: Usage{}}).
		Reserve(KeySession, KeyExecContext, KeyToolCallbacks, KeyModelCallbacks, KeyAgentCallbacks, KeyCurrentNode, KeyParentAgent, KeyCommand, KeyResumeMap).
		RegisterType(reflect.TypeFor[chat.Message](), reflect.TypeFor[chat.Update]())
}

// reduceMessages is the reducer of messages.
func reduceMessages(messages []chat.Message, update any) []chat.Message {
	switch u := update.(type) {
	case chat.Update:
		return u.Apply(messages)
	case []chat.Message:
		return chat.AppendMessages(u...).Apply(messages)
	case chat.Message:
		return chat.AppendMessages(u).Apply(messages)
	case nil:
		return messages
	}
	panic(fmt.Sprintf("messages are updated with a %T: want a chat.Message, a list of them or a chat.Update", update))
}

// reduceUsage is the reducer of what models used.
func reduceUsage(sum Usage, update any) Usage {
	u, ok := update.(Usage)
	if !ok && update != nil {
		panic(fmt.Sprintf("usage is updated with a %T: want an agent.Usage", update))
	}
	return sum.plus(u)
}

// AddSchemaLLM is [AddLLM] for a graph whose state is a map, with the fields of
// [MessagesSchema]. The callbacks see these fields as a [State].
func AddSchemaLLM(b *graph.Builder[graph.SchemaState], name string, l LLM[State], opts ...graph.NodeOption) {
	b.Mistake(name, l.check()).Defaults(schemaTurns)
	b.AddNode(name, func(ctx context.Context, s *graph.SchemaState) error {
		return OnSchema(s, func(st *State) error {
			return Counted(func(ctx context.Context, st *State) error { return l.run(ctx, st, st) })(ctx, st)
		})
	}, append([]graph.NodeOption{schemaFields}, opts...)...)
}

// AddSchemaTools is [AddTools] for a graph whose state is a map, with the fields
// of [MessagesSchema].
func AddSchemaTools(b *graph.Builder[graph.SchemaState], name string, t Tools[State], opts ...graph.NodeOption) {
	b.Mistake(name, t.check()).Defaults(schemaTurns)
	t.node = graph.AddCommandTask(b, name, func(ctx context.Context, s *graph.SchemaState, r *round) (cmd graph.Command, err error) {
		err = OnSchema(s, func(st *State) error {
			cmd, err = t.run(ctx, st, st, r)
			return err
		})
		return cmd, err
	}, t.options(name, append([]graph.NodeOption{schemaFields}, opts...))...)
}

// AddSchemaAgent is [AddAgent] for a graph whose state is a map, with the fields
// of [MessagesSchema].
func AddSchemaAgent(b *graph.Builder[graph.SchemaState], name string, a *Agent, c SubAgent[State], opts ...graph.NodeOption) {
	if err := a.check(); err != nil {
		b.Mistake(name, err)
		b.AddNode(name, func(context.Context, *graph.SchemaState) error { return err })
		return
	}
	b.Defaults(schemaTurns).AddNode(name, func(ctx context.Context, s *graph.SchemaState) error {
		return OnSchema(s, func(st *State) error { return runAgent(withParent(ctx, s), st, name, a, c) })
	}, append([]graph.NodeOption{schemaFields, a.node}, opts...)...)
}

// AddSchemaToolsEdges is [AddToolsConditionalEdges] for a graph whose state is a
// map.
func AddSchemaToolsEdges(b *graph.Builder[graph.SchemaState], llm, tools, fallback string) {
	b.AddConditionalEdges(llm, func(_ context.Context, s *graph.SchemaState) (graph.Command, error) {
		messages, err := schemaValue[[]chat.Message](s, KeyMessages)
		if err != nil {
			return graph.Command{}, err
		}
		h := chat.Of(messages...)
		if _, calls := Pending(&h); len(calls) > 0 {
			return graph.Goto(tools), nil
		}
		return graph.Goto(fallback), nil
	}, tools, fallback)
}

// schemaTurns is [Turns] for a state that is a map.
var schemaTurns = graph.OnInput(func(s *graph.SchemaState, open graph.Open) (newTurn bool, err error) {
	err = OnSchema(s, func(st *State) error {
		newTurn, err = st.onInput(open)
		return err
	})
	return newTurn, err
})

// schemaFields makes Compile report a schema that lacks a field.
var schemaFields = graph.Reads(KeyMessages, KeyUserInput, KeyOneShot, KeyLastResponse, KeyNodeResponses, KeyMetadata)

// schemaValue returns a field's value, zero if it has none.
func schemaValue[T any](s *graph.SchemaState, name string) (T, error) {
	var none T
	v := s.Get(name)
	if v == nil {
		return none, nil
	}
	t, ok := v.(T)
	if !ok {
		return none, fmt.Errorf("field %q of the schema is a %T: the nodes of package agent need a %T, as in MessagesSchema", name, v, none)
	}
	return t, nil
}

// SchemaTurns is [Turns] for a state that is a map.
func SchemaTurns() graph.RunOption { return schemaTurns }

// OfSchema is [Of] for a graph whose state is a map, with the fields of
// [MessagesSchema].
func OfSchema(g *graph.Graph[graph.SchemaState], description string) *Agent {
	return of(g, description, OnSchema, func(s *graph.SchemaState) (*State, error) {
		var out State
		err := OnSchema(s, func(st *State) error { out = *st; return nil })
		if err != nil {
			return nil, err
		}
		responses, err := schemaValue[map[string]any](s, KeyNodeResponses)
		for node, text := range responses {
			out.NodeResponses.Put(node, fmt.Sprint(text))
		}
		used, usedErr := schemaValue[Usage](s, KeyUsage)
		spend(&out.Usage, used)
		structured, structErr := schemaValue[map[string]any](s, KeyStructured)
		if structured != nil {
			out.Structured.Set(asJSON(structured))
		}
		return &out, errors.Join(err, usedErr, structErr)
	})
}

// OnSchema lets a function work on the fields of [MessagesSchema] as a [State]. What it
// changes is written to the map; NodeResponses, Usage and Structured are what it adds.
func OnSchema(s *graph.SchemaState, run func(st *State) error) error {
	var st State
	messages, err := schemaValue[[]chat.Message](s, KeyMessages)
	if err != nil {
		return err
	}
	oneShot, err := schemaValue[[]chat.Message](s, KeyOneShot)
	if err != nil {
		return err
	}
	if st.UserInput, err = schemaValue[string](s, KeyUserInput); err != nil {
		return err
	}
	last, err := schemaValue[string](s, KeyLastResponse)
	if err != nil {
		return err
	}
	metadata, err := schemaValue[map[string]any](s, KeyMetadata)
	if err != nil {
		return err
	}
	for k, v := range metadata {
		st.Metadata.Put(k, asJSON(v))
	}
	st.Messages = chat.Of(messages...)
	st.OneShot.Set(oneShot)
	if last != "" {
		st.LastResponse.Add(last)
	}
	input := st.UserInput
	if err := run(&st); err != nil {
		return err
	}
	update := graph.MapState{}
	if u := st.Messages.Pending(); !u.IsZero() {
		update[KeyMessages] = u
	}
	if st.UserInput != input {
		update[KeyUserInput] = st.UserInput
	}
	if len(oneShot) > 0 && len(st.OneShot.Get()) == 0 {
		update[KeyOneShot] = []chat.Message{}
	}
	if text := st.LastResponse.Get(); text != last {
		update[KeyLastResponse] = text
	}
	responses := map[string]any{}
	for node, text := range st.NodeResponses.All() {
		responses[node] = text
	}
	if len(responses) > 0 {
		update[KeyNodeResponses] = responses
	}
	changed := map[string]any{}
	for k, v := range st.Metadata.All() {
		if was, ok := metadata[k]; !ok || !bytes.Equal(asJSON(was), v) {
			var value any
			if err := json.Unmarshal(v, &value); err != nil {
				return fmt.Errorf("metadata %q: %w", k, err)
			}
			changed[k] = value
		}
	}
	if len(changed) > 0 {
		update[KeyMetadata] = changed
	}
	if used := st.Usage.Get(); len(used) > 0 {
		if s.Get(KeyUsage) != nil { // a schema of the user's own may lack it
			update[KeyUsage] = used
		}
	}
	if st.Structured.Get() != nil {
		v, err := Structured[map[string]any](&st)
		if err != nil {
			return err
		}
		update[KeyStructured] = v
	}
	return update.Into(s)
}
