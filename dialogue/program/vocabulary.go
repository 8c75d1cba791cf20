package program

import (
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/dialogue/language"
)

// The vocabulary of the language: which keys a map of each kind may have, what may be
// written there, and what it means. The parser reads no key that isn't here, and the
// JSON Schema and the reference say what is here.

// object is a kind of maps.
type object struct {
	name  string // in the schema
	what  string // in findings
	about string
	keys  []key
	// needs are keys of which one each has to be there.
	needs [][]string
	// apart are keys that don't stand together.
	apart [][2]string
	// tagged says that the keys may also be tags of languages, and what is there.
	tagged *shape
}

// key is one key of a map.
type key struct {
	name     string
	old      []string // earlier spellings
	is       shape
	fallback string // as it is written; "" has none
	about    string
	to       func(*Program) any // where the value of a setting goes
}

// shape is what may be written at a place.
type shape struct {
	words  string // in the reference
	schema *schema
	choice []string // the words that are accepted, if it is one of several
}

// key returns the key of a name, nil if there is none.
func (o *object) key(name string) *key {
	if o == nil {
		return nil
	}
	for i := range o.keys {
		if o.keys[i].name == name {
			return &o.keys[i]
		}
	}
	return nil
}

func ref(name string) *schema { return &schema{Ref: "#/$defs/" + name} }

// link is the words of something that has a section of its own in the reference.
func link(words, section string) string { return "[" + words + "](#" + anchor(section) + ")" }

// anchor is where a page has the section of a title.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '_' || r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(title))
}

// What may be written, without a map of its own.
var (
	aText     = shape{words: "text", schema: &schema{Type: oneType{"string", "number", "boolean"}}}
	aName     = shape{words: "name", schema: &schema{Type: oneType{"string"}, Pattern: name.String()}}
	aStepName = shape{words: "name", schema: &schema{Type: oneType{"string"}, Pattern: stepName.String()}}
	aFlow     = shape{words: "flow", schema: &schema{Type: oneType{"string"}, Pattern: name.String()}}
	anAction  = shape{words: "action", schema: &schema{Type: oneType{"string"}, Pattern: name.String()}}
	aSlot     = shape{words: "slot", schema: ref("slotName")}
	someSlots = shape{words: "slot or list of slots", schema: oneOrMany(ref("slotName"))}
	someNames = shape{words: "name or list of names", schema: oneOrMany(&schema{Type: oneType{"string", "number", "boolean"}})}
	someTexts = shape{words: "text or list of texts", schema: oneOrMany(&schema{Type: oneType{"string", "number", "boolean"}})}
	aBoolean  = shape{words: "true or false", schema: &schema{Type: oneType{"boolean"}}}
	aCount    = shape{words: "whole number above zero", schema: &schema{Type: oneType{"integer"}, Minimum: 1}}
	aNumber   = shape{words: "number", schema: &schema{Type: oneType{"number"}}}
	aBound    = shape{words: "number or date", schema: &schema{Type: oneType{"number", "string"}}}
	aDuration = shape{words: link("duration", "What is written"), schema: ref("duration")}
	aTime     = shape{words: aDuration.words, schema: ref("time")}
	anExpr    = shape{words: link("expression", "Expressions"), schema: ref("expression")}
	aTarget   = shape{words: link("target", "Targets"), schema: ref("target")}
	someWords = shape{words: link("response", "Responses"), schema: ref("said")}
	anything  = shape{words: "anything", schema: &schema{}}
	aType     = shape{words: "type", schema: ref("type")}
	aLanguage = shape{words: "language", schema: &schema{Type: oneType{"string"}}}
	someTags  = shape{words: "language or list of languages", schema: oneOrMany(&schema{Type: oneType{"string"}})}
	theSteps  = shape{words: "list of " + link("steps", "Steps"), schema: &schema{Type: oneType{"array"}, Items: ref("step"), MinItems: 1}}
	theParams = shape{words: "list of names, or map from name to type; a name with ? may be missing", schema: ref("params")}
	theArgs   = shape{words: "map from input to " + link("value", "What is written") + ", or list of slots", schema: ref("args")}
	theOuts   = shape{words: "map from output to slot", schema: &schema{Type: oneType{"object"}, AdditionalProperties: ref("slotName")}}
	theSlots  = shape{words: "map from name to " + link("slot", "slot"), schema: ref("slots")}
	wholeText = shape{words: "text, or map by language", schema: &schema{AnyOf: []*schema{{Type: oneType{"string", "number", "boolean"}}, {Type: oneType{"object"}, AdditionalProperties: &schema{Type: oneType{"string", "number", "boolean"}}}}}}
	theWords  = shape{words: "text, or " + link("plural forms", "pluralForms"), schema: ref("words")}
	// atLimit is what a task comes to when a limit is reached.
	atLimit = oneOf("cancel", "handoff", "end", "error", "__end__", "__end_flow__", "END", "cancel_flow")
)

// oneOf is one of several words.
func oneOf(words ...string) shape {
	s := shape{schema: &schema{}, choice: words}
	var shown []string
	for _, w := range words {
		s.schema.Enum = append(s.schema.Enum, w)
		if !slices.Contains(oldTargets, w) {
			shown = append(shown, "`"+w+"`")
		}
	}
	s.words = strings.Join(shown, " ")
	return s
}

// oldTargets are earlier spellings of targets.
var oldTargets = []string{"__end__", "__end_flow__", "END", "cancel_flow"}

func oneOrMany(s *schema) *schema {
	return &schema{AnyOf: []*schema{s, {Type: oneType{"array"}, Items: s}}}
}

// a is a map of a kind.
func a(o *object) shape { return shape{words: link("map", o.name), schema: ref(o.name)} }

// either is one shape or another.
func either(x, y shape) shape {
	return shape{words: x.words + ", or " + y.words, schema: &schema{AnyOf: []*schema{x.schema, y.schema}}}
}

// mapOf is a map from names to shapes.
func mapOf(s shape) shape {
	return shape{words: "map from name to " + s.words, schema: &schema{Type: oneType{"object"}, PropertyNames: &schema{Pattern: name.String()}, AdditionalProperties: s.schema}}
}

func listOf(s shape) shape {
	return shape{words: "list of " + s.words, schema: &schema{Type: oneType{"array"}, Items: s.schema, MinItems: 1}}
}

// orNothing lets the value be left out.
func orNothing(s shape) shape {
	s.schema = &schema{AnyOf: []*schema{s.schema, {Type: oneType{"null"}}}}
	return s
}

var rootObject = &object{
	name: "assistant", what: "the file",
	about: "The top level of each file of an assistant. The maps of names may be spread over files; every other key is given once in all of them.",
	keys: []key{
		{name: "version", is: shape{words: "`\"2.0\"`", schema: &schema{Enum: []any{"2.0", "1.0", "0.1", 2.0, 1.0, 0.1}}}, about: "Version of the language; needed once. `\"1.0\"` and `\"0.1\"` are those of Soni."},
		{name: "name", is: aText, fallback: "assistant", about: "Shown by tools."},
		{name: "description", is: aText, about: "Shown by tools."},
		{name: "languages", is: a(languagesObject), about: "In which languages it speaks."},
		{name: "settings", is: a(settingsObject), about: "Limits and switches."},
		{name: "patterns", old: []string{"conversation_patterns"}, is: a(patternsObject), about: "How a conversation is repaired."},
		{name: "session", is: orNothing(theSlots), about: "Values of the whole conversation, read as `session.NAME`. Flows alone write them."},
		{name: "slots", is: orNothing(shape{words: theSlots.words, schema: &schema{AnyOf: []*schema{ref("slots"), {Type: oneType{"array"}, Items: ref("namedSlot")}}}}), about: "What flows ask for and work out; shared by all flows. Each instance of a flow has its own values."},
		{name: "actions", is: orNothing(mapOf(orNothing(a(actionObject)))), about: "Contracts of the code that flows call."},
		{name: "responses", is: orNothing(mapOf(shape{words: link("response", "Responses"), schema: ref("entries")})), about: "What is said, by name."},
		{name: "translations", is: shape{words: "map from language to map from name to " + link("response", "Responses"), schema: &schema{Type: oneType{"object"}, AdditionalProperties: orNothing(mapOf(shape{schema: ref("entries")})).schema}}, about: "Responses in other languages. A response has its words in a language here or at itself, not in both."},
		{name: "flows", is: orNothing(mapOf(a(flowObject))), about: "The tasks; at least one is needed."},
	},
}

var languagesObject = &object{
	name: "languages", what: "languages",
	about: "Tags are those of BCP 47, such as `en` or `de-AT`.",
	keys: []key{
		{name: "default", is: aLanguage, fallback: "en", about: "Spoken unless the user or the caller says otherwise; that of every text that names none."},
		{name: "also", is: someTags, about: "Others in which there are words."},
	},
}

var settingsObject = &object{
	name: "settings", what: "settings",
	keys: []key{
		{name: "stack", old: []string{"flow_management"}, is: a(stackObject), about: "How many tasks may be open."},
		{name: "collection", is: a(collectionObject), about: "Refused answers."},
		{name: "conversation", is: a(conversationObject), about: "The conversation as a whole."},
		{name: "history", old: []string{"memory_management"}, is: a(historyObject), about: "What is kept of the past. The oldest is dropped."},
		{name: "runtime", is: a(runtimeObject), about: "Bounds on what one message can cause."},
		{name: "rephrase", is: a(rephraseObject), about: "Whether a model words replies anew."},
		{name: "models", old: []string{"llm"}, is: a(modelsObject), about: "Models, by purpose. Keys come from the environment, never from the file."},
		{name: "persistence", is: a(persistenceObject), about: "Where conversations are kept, unless the program that loads the assistant says otherwise."},
	},
}

// settingObjects are the groups of settings that hold nothing but values of their own.
var settingObjects = []*object{stackObject, collectionObject, conversationObject, historyObject, runtimeObject, rephraseObject}

var stackObject = &object{
	name: "settings.stack", what: "settings.stack",
	keys: []key{
		{name: "max_depth", old: []string{"max_stack_depth"}, is: aCount, fallback: "3", about: "Tasks that the user started and that are open at once. Called flows don't count.", to: func(p *Program) any { return &p.Settings.StackDepth }},
		{name: "on_limit", old: []string{"on_limit_reached"}, is: oneOf("cancel_oldest", "reject_new"), fallback: "cancel_oldest", about: "What happens to one more: the oldest is cancelled, or it is not begun.", to: func(p *Program) any { return &p.Settings.StackOnLimit }},
	},
}

var collectionObject = &object{
	name: "settings.collection", what: "settings.collection",
	keys: []key{
		{name: "max_attempts", old: []string{"max_validation_attempts"}, is: aCount, fallback: "3", about: "Refused answers to one question before `on_invalid`.", to: func(p *Program) any { return &p.Settings.MaxAttempts }},
		{name: "on_invalid", is: atLimit, fallback: "cancel", about: "What the task comes to then.", to: func(p *Program) any { return &p.Settings.OnInvalid }},
		{name: "validation_timeout", is: aDuration, about: "Read for Soni's sake. Validators have the time that their code has.", to: func(*Program) any { return new(time.Duration) }},
	},
}

var conversationObject = &object{
	name: "settings.conversation", what: "settings.conversation",
	keys: []key{
		{name: "max_turns_without_progress", is: aCount, fallback: "10", about: "Messages in a row that change neither a slot, nor a task, nor a step.", to: func(p *Program) any { return &p.Settings.NoProgress }},
		{name: "on_no_progress", is: oneOf("handoff", "fallback", "retry"), fallback: "handoff", about: "What happens then.", to: func(p *Program) any { return &p.Settings.OnNoProgress }},
		{name: "session_timeout", is: aDuration, fallback: "30m", about: "Silence after which open tasks are abandoned; `none` keeps them.", to: func(p *Program) any { return &p.Settings.SessionAfter }},
		{name: "forget_session", is: aBoolean, fallback: "false", about: "Whether the values of the session go with them.", to: func(p *Program) any { return &p.Settings.ForgetSession }},
		{name: "default_flow", is: aFlow, about: "Runs at the first message if it started nothing.", to: func(p *Program) any { return &p.Settings.DefaultFlow }},
		{name: "fallback_flow", is: aFlow, about: "Runs when nothing was understood and nothing is open.", to: func(p *Program) any { return &p.Settings.FallbackFlow }},
	},
}

var historyObject = &object{
	name: "settings.history", what: "settings.history",
	keys: []key{
		{name: "messages", old: []string{"max_history_messages"}, is: aCount, fallback: "50", about: "Lines of the transcript.", to: func(p *Program) any { return &p.Settings.HistoryMessages }},
		{name: "trace_events", old: []string{"max_trace_events"}, is: aCount, fallback: "100", about: "Events of the trace.", to: func(p *Program) any { return &p.Settings.TraceEvents }},
		{name: "completed_flows", old: []string{"max_completed_flows"}, is: aCount, fallback: "10", about: "Flows that are over.", to: func(p *Program) any { return &p.Settings.CompletedFlows }},
	},
}

var runtimeObject = &object{
	name: "settings.runtime", what: "settings.runtime",
	keys: []key{
		{name: "max_step_executions", is: aCount, fallback: "100", about: "Of one step in one turn; more is the error `loop_detected`.", to: func(p *Program) any { return &p.Settings.StepExecutions }},
		{name: "flow_iterations", is: aCount, fallback: "50", about: "Flows that run in one turn; more is the error `turn_limit`.", to: func(p *Program) any { return &p.Settings.FlowIterations }},
		{name: "advances", is: aCount, fallback: "20", about: "Actions and models that one turn waits for; more is the error `turn_limit`.", to: func(p *Program) any { return &p.Settings.Advances }},
		{name: "max_commands", is: aCount, fallback: "16", about: "Commands of one message; further ones are dropped.", to: func(p *Program) any { return &p.Settings.Commands }},
		{name: "max_message_chars", is: aCount, fallback: "4000", about: "Length of a message; a longer one is refused.", to: func(p *Program) any { return &p.Settings.MessageChars }},
		{name: "call_depth", is: aCount, fallback: "16", about: "Flows that call one another; more is the error `call_depth`.", to: func(p *Program) any { return &p.Settings.CallDepth }},
	},
}

var rephraseObject = &object{
	name: "settings.rephrase", what: "settings.rephrase",
	keys: []key{
		{name: "enabled", is: aBoolean, fallback: "false", about: "A rephrased text is sent only if every number, name, inserted value and button is still in it.", to: func(p *Program) any { return &p.Settings.Rephrase }},
		{name: "tone", is: oneOf("friendly", "professional", "formal"), fallback: "friendly", about: "How the model writes.", to: func(p *Program) any { return &p.Settings.RephraseTone }},
	},
}

var modelsObject = &object{
	name: "settings.models", what: "settings.models",
	keys: []key{
		{name: "nlu", is: a(modelObject), about: "Understands messages."},
		{name: "generate", is: a(modelObject), about: "Writes for `generate` and works for `agent`."},
		{name: "rephrase", is: a(modelObject), about: "Words replies anew."},
	},
}

var modelObject = &object{
	name: "model", what: "a model",
	keys: []key{
		{name: "provider", is: aText, about: "Who has it."},
		{name: "model", is: aText, about: "Its name there."},
		{name: "temperature", is: aNumber, fallback: "0", about: "How much it varies."},
	},
}

var persistenceObject = &object{
	name: "settings.persistence", what: "settings.persistence",
	keys: []key{
		{name: "backend", is: oneOf("memory", "sqlite", "postgres", "redis"), fallback: "memory", about: "Kind of store."},
		{name: "path", is: aText, about: "File of SQLite."},
		{name: "connection", is: aText, about: "Address of a database."},
	},
}

// patternOf is the map of a pattern.
func patternOf(name, about string, keys ...key) *object {
	return &object{
		name: "patterns." + name, what: "patterns." + name, about: about,
		keys: append([]key{{name: "flow", is: aFlow, about: "A flow of yours in the place of the built-in one; `none` has no effect."}}, keys...),
	}
}

// patternObjects are the patterns, in the order in which they are told.
var patternObjects = []*object{
	patternOf("resume", "A task goes on after an interruption."),
	patternOf("correction", "The user corrects an answer.",
		key{name: "enabled", is: aBoolean, fallback: "true", about: "Whether answers can be corrected.", to: func(p *Program) any { return &p.Patterns.Correction }},
		key{name: "announce", is: aBoolean, fallback: "false", about: "Whether `corrected` is said.", to: func(p *Program) any { return &p.Patterns.AnnounceCorrected }}),
	patternOf("clarification", "The user asks what a question means, or leaves the subject.",
		key{name: "max_depth", is: aCount, fallback: "3", about: "Digressions in a row.", to: func(p *Program) any { return &p.Patterns.ClarifyDepth }},
		key{name: "on_limit", old: []string{"fallback"}, is: atLimit, fallback: "handoff", about: "What the task comes to after them.", to: func(p *Program) any { return &p.Patterns.ClarifyOnLimit }}),
	patternOf("cancellation", "The user cancels a task.",
		key{name: "confirm", old: []string{"confirm_before_cancel"}, is: aBoolean, fallback: "false", about: "Whether the user is asked first.", to: func(p *Program) any { return &p.Patterns.ConfirmCancel }}),
	patternOf("confirmation", "An answer to a confirm is neither yes nor no.",
		key{name: "max_retries", is: aCount, fallback: "3", about: "Such answers in a row.", to: func(p *Program) any { return &p.Patterns.ConfirmRetries }},
		key{name: "on_limit", old: []string{"on_max_retries"}, is: atLimit, fallback: "cancel", about: "What the task comes to after them.", to: func(p *Program) any { return &p.Patterns.ConfirmOnLimit }}),
	patternOf("unclear", "A message was not understood.",
		key{name: "max_retries", is: aCount, fallback: "3", about: "Such messages in a row.", to: func(p *Program) any { return &p.Patterns.UnclearRetries }},
		key{name: "on_limit", is: atLimit, fallback: "handoff", about: "What the task comes to after them.", to: func(p *Program) any { return &p.Patterns.UnclearOnLimit }}),
	patternOf("chitchat", "Small talk."),
	patternOf("out_of_scope", "A wish that no flow serves."),
	patternOf("question", "A question about a subject."),
	patternOf("several_starts", "One message starts several tasks."),
	patternOf("handoff", "A person takes over.",
		key{name: "queue", is: aText, fallback: "default", about: "To whom.", to: func(p *Program) any { return &p.Patterns.Queue }},
		key{name: "deadline", is: aDuration, fallback: "none", about: "When the bot takes over again.", to: func(p *Program) any { return &p.Patterns.HandoffDeadline }},
		key{name: "on_deadline", is: oneOf("resume", "cancel"), fallback: "resume", about: "What the open task comes to then.", to: func(p *Program) any { return &p.Patterns.HandoffOnDeadline }}),
	patternOf("error", "An action failed and nothing in the flow deals with it.",
		key{name: "recovery", is: oneOf("keep", "reset"), fallback: "keep", about: "Whether other tasks stay.", to: func(p *Program) any { return &p.Patterns.Recovery }},
		key{name: "timeout", is: oneOf("ask_retry", "end"), fallback: "ask_retry", about: "Whether the user is asked to try again after a timeout.", to: func(p *Program) any { return &p.Patterns.OnTimeout }}),
	patternOf("no_progress", "Too many messages in a row changed nothing; see settings.conversation."),
	patternOf("session_end", "The user was silent for too long."),
}

// How a task goes on, and which of several goes first.
var (
	aResume = oneOf("immediate", "ask", "announce")
	anOrder = oneOf("first", "last")
)

var patternsObject = func() *object {
	o := &object{name: "patterns", what: "patterns", about: "Each is a map; `{flow: NAME}` replaces the built-in flow, which runs above the stack like a call. Its texts are responses, which a response of the same name replaces."}
	for _, p := range patternObjects {
		k := key{name: strings.TrimPrefix(p.name, "patterns."), is: a(p), about: p.about}
		switch k.name {
		case "resume":
			k.is, k.fallback = either(aResume, k.is), "immediate"
			k.about += " It asks its question again at once, says `resuming` first, or asks `resume_question`."
		case "several_starts":
			k.is, k.fallback = anOrder, "first"
			k.about += " The one that runs first."
		case "handoff":
			k.old = []string{"human_handoff"}
		}
		o.keys = append(o.keys, k)
	}
	return o
}()

var slotObject = &object{
	name: "slot", what: "a slot",
	about: "A value is accepted in this order: its source is allowed, it is read by type and language, it is one of the options, within the bounds, of the format, and the validators take it. The first that refuses it ends that.",
	keys: []key{
		{name: "type", is: aType, fallback: "string", about: "What is kept."},
		{name: "items", is: aType, about: "Type of the items of a list."},
		{name: "description", is: aText, about: "For models and tools; answers a question about the slot if there is no `explain`."},
		{name: "examples", is: someTexts, about: "What users say."},
		{name: "extends", is: aName, about: "A slot whose keys this one has too, unless they are given here."},
		{name: "ask", old: []string{"prompt"}, is: someWords, about: "The question. Without it each `collect` needs its own."},
		{name: "explain", is: someWords, about: "Said when the user asks what is meant."},
		{name: "options", is: shape{words: "list of values or " + link("maps", "option"), schema: &schema{Type: oneType{"array"}, MinItems: 1, Items: &schema{AnyOf: []*schema{{Type: oneType{"string", "number", "boolean"}}, ref("option")}}}}, about: "The closed set of its values, shown as buttons. An answer matches without regard to case, accents and outer punctuation."},
		{name: "minimum", is: aBound, about: "Lowest value."},
		{name: "maximum", is: aBound, about: "Highest value."},
		{name: "exclusive_minimum", is: aBound, about: "Values are above it."},
		{name: "exclusive_maximum", is: aBound, about: "Values are below it."},
		{name: "length", is: either(aCount, a(lengthObject)), about: "Characters of a string, items of a list."},
		{name: "format", is: oneOf(language.Formats...), about: "A check, and the form that is kept: `iban` in capitals without blanks, `digits` without blanks."},
		{name: "validate", is: someNames, about: "Validators of your code, in order; each gets the value that the one before returned."},
		{name: "normalizer", is: someNames, about: "Old: the first of `validate`."},
		{name: "validator", is: someNames, about: "Old: the rest of `validate`."},
		{name: "invalid", old: []string{"invalid_message", "validation_error_message"}, is: someWords, fallback: "invalid_value", about: "Said when a value is refused; `{error.message}` is the reason."},
		{name: "required", is: aBoolean, fallback: "true", about: "Whether the user may not skip the question."},
		{name: "default", is: anything, about: "Its value from the start of a flow that mentions it. It counts as filled."},
		{name: "eager", is: aBoolean, fallback: "true", about: "Whether it may be given before it is asked for."},
		{name: "sensitive", is: aBoolean, fallback: "false", about: "Whether it is masked in prompts, logs, traces, exports and tools. Replies show it, unless as `{NAME:masked}`."},
		{name: "from", is: shape{words: "source or list of sources", schema: oneOrMany(oneOf(stringsOf(sources)...).schema)}, about: "Who may write it: `user` `button` `action` `set` `default` `input` `agent`. Without it everybody for a slot that a flow collects, and everybody but `user`, `button` and `agent` for the others."},
	},
}

// namedSlotObject is a slot in a list.
var namedSlotObject = &object{
	name: "namedSlot", what: "a slot", keys: append([]key{{name: "name", is: aName, about: "Old: slots are a map from name to slot."}}, slotObject.keys...),
	needs: [][]string{{"name"}},
}

var lengthObject = &object{
	name: "length", what: "length",
	keys: []key{
		{name: "min", is: aCount, about: "At least."},
		{name: "max", is: aCount, about: "At most."},
	},
}

var optionObject = &object{
	name: "option", what: "an option",
	keys: []key{
		{name: "value", is: anything, about: "What is kept."},
		{name: "label", is: wholeText, about: "What is shown; without it the value."},
		{name: "synonyms", is: someTexts, about: "What users say instead."},
	},
	needs: [][]string{{"value"}},
}

var actionObject = &object{
	name: "action", what: "an action",
	about: "The contract of code that is registered under the name. A missing input is the error `invalid` and an output of another type `invalid_output`. All attempts of one visit of a step carry one idempotency key.",
	keys: []key{
		{name: "description", is: aText, about: "For tools, and for the model of an `agent`."},
		{name: "inputs", is: theParams, about: "Taken from the slots of the same names unless the step says otherwise."},
		{name: "outputs", is: theParams, about: "Stored in the slots of the same names unless the step says otherwise."},
		{name: "effect", is: oneOf(string(Read), string(Write), string(Irreversible)), fallback: "write", about: "What repeating it does. An irreversible one runs only after a confirm that showed what it is given."},
		{name: "guard", is: anExpr, about: "Checked again at the call; false is the error `refused`."},
		{name: "timeout", is: aDuration, fallback: "30s", about: "After it the error is `timeout`."},
		{name: "retry", is: a(retryObject), about: "When it is tried again."},
		{name: "command", is: aText, about: "What users say when they want just this: then understanding may ask for it at any time, and it changes nothing of the task. A response of the action's name tells them the outputs."},
		{name: "compensate", is: anAction, about: "Undoes it when a correction leads back past it; gets its inputs and outputs."},
	},
}

var retryObject = &object{
	name: "retry", what: "retry",
	keys: []key{
		{name: "max_attempts", is: aCount, fallback: "1", about: "All attempts together."},
		{name: "delay", is: aDuration, fallback: "500ms", about: "Pause after the first."},
		{name: "backoff", is: oneOf("fixed", "linear", "exponential"), fallback: "fixed", about: "How it grows."},
		{name: "max_delay", is: aDuration, fallback: "8s", about: "How far it grows."},
		{name: "retry_on", is: someNames, about: "Types of errors; without it all but `refused` and `invalid`."},
	},
}

var flowObject = &object{
	name: "flow", what: "a flow",
	keys: []key{
		{name: "description", is: aText, about: "What it does for the user; the model chooses by it."},
		{name: "examples", old: []string{"trigger_intents"}, is: someTexts, about: "What users say; `{slot}` stands for a value."},
		{name: "trigger", is: a(triggerObject), about: "Old: `examples` and `guard`."},
		{name: "guard", is: anExpr, about: "Whether it may start now. One that may not isn't offered to the model."},
		{name: "internal", is: aBoolean, fallback: "false", about: "Whether only `call` and `link` start it."},
		{name: "inputs", is: theParams, about: "Values that it is given at its start."},
		{name: "outputs", is: theParams, about: "Slots that it hands back at its end."},
		{name: "slots", is: theSlots, about: "Slots of its own; they hide shared ones."},
		{name: "on_error", is: aTarget, about: "Where errors lead whose step says nothing."},
		{name: "interruptible", is: aBoolean, fallback: "true", about: "Whether another task may start while it waits."},
		{name: "resume", is: aResume, fallback: "that of patterns", about: "How it goes on after an interruption."},
		{name: "formerly", is: someNames, about: "Names that it had. Conversations that stand in it are found by them."},
		{name: "migrate", is: oneOf("pin", "alias", "restart_keep_slots"), fallback: "pin", about: "What becomes of conversations that stand in it when it changes: they end in the old version, go on at the step of the same name, or begin anew with their slots."},
		{name: "steps", old: []string{"process"}, is: theSteps, about: "What it does, in order."},
	},
	needs: [][]string{{"description"}, {"steps"}},
}

var triggerObject = &object{
	name: "trigger", what: "trigger",
	keys: []key{
		{name: "intents", is: someTexts, about: "Old: `examples` of the flow."},
		{name: "condition", is: anExpr, about: "Old: `guard` of the flow."},
	},
}

var entryObject = &object{
	name: "entry", what: "a response",
	about: "Of a list, one is said: of those whose channel and condition fit, by the hash of thread, turn and name. Where `ask`, `say`, `invalid` and `explain` have a scalar, it is the name of a response; own words are written `{text: …}`.",
	keys: []key{
		{name: "text", is: theWords, about: "In the default language. `{path}` puts in a value, `{path:FORMAT}` a formatted one, `{{ EXPR }}` an expression."},
		{name: "channel", is: someNames, about: "Channels on which it is said; without it on all that have nothing of their own."},
		{name: "when", is: anExpr, about: "When it is said."},
		{name: "buttons", is: listOf(a(buttonObject)), about: "Answers to choose from."},
		{name: "media", is: anything, about: "Passed on as it is."},
		{name: "custom", is: anything, about: "Passed on as it is."},
		{name: "rephrase", is: aBoolean, fallback: "that of settings", about: "Whether a model may word it anew."},
	},
	tagged: &theWords,
}

var variationsObject = &object{
	name: "variations", what: "a response",
	keys: []key{
		{name: "default", is: shape{words: "entry", schema: ref("oneEntry")}, about: "Old: the first of a list."},
		{name: "variations", is: shape{words: "list of entries", schema: &schema{Type: oneType{"array"}, Items: ref("oneEntry")}}, about: "Old: the rest of the list."},
	},
	needs: [][]string{{"default"}},
}

var wordsObject = func() *object {
	o := &object{
		name: "pluralForms", what: "text",
		about: "The form is that of the language, by CLDR. `zero`, if given, is said for 0 in every language.",
		keys:  []key{{name: "count", is: anExpr, about: "What is counted: a number or a list."}},
		needs: [][]string{{"count"}, {"other"}},
	}
	for _, form := range pluralForms {
		o.keys = append(o.keys, key{name: form, is: aText})
	}
	return o
}()

var pluralForms = []string{"zero", "one", "two", "few", "many", "other"}

var buttonObject = &object{
	name: "button", what: "a button",
	keys: []key{
		{name: "label", is: wholeText, about: "What it says; may hold `{path}`."},
		{name: "value", is: anything, about: "Answers the open question with this."},
		{name: "start", is: aFlow, about: "Starts a flow."},
		{name: "slots", is: shape{words: "map from slot to value", schema: &schema{Type: oneType{"object"}}}, about: "What the flow is told at its start."},
		{name: "commands", is: shape{words: "list of commands", schema: &schema{Type: oneType{"array"}, Items: &schema{Type: oneType{"object"}, Required: []string{"type"}}}}, about: "Commands as JSON; each has a `type`."},
	},
	needs: [][]string{{"label"}, {"value", "start", "commands"}},
}

// labelObject is a text by language.
var labelObject = &object{name: "label", what: "label", tagged: &aText}

// stepKeys are those of every step.
var stepKeys = []key{
	{name: "step", is: aStepName, fallback: "TYPE_n", about: "Its name, unique in the flow."},
	{name: "when", old: []string{"condition"}, is: anExpr, about: "Whether it is done at all; false passes over it and its `next`."},
	{name: "next", old: []string{"jump_to"}, is: aTarget, fallback: "continue", about: "Where the flow goes on after it."},
	{name: "formerly", is: someNames, about: "Names that it had."},
	{name: "description", is: aText, about: "For tools."},
}

// stepKind is a type of steps.
type stepKind struct {
	object
	// old are the keys that say what the step is about in the form {type: T, …}.
	old []string
	// oldIs is what these hold, if it isn't what the step's own key does.
	oldIs *shape
	// types are the words for T.
	types []string
}

// stepOf is a type of steps; is what its key holds.
func stepOf(name, about string, is shape, old []string, keys ...key) *stepKind {
	main := key{name: name, is: is, about: "What the step is about."}
	return &stepKind{
		object: object{name: name + " step", what: "a step", about: about, keys: slices.Concat([]key{main}, keys, stepKeys)},
		old:    old, types: []string{name},
	}
}

// alsoCalled gives a type of steps an earlier word for T.
func alsoCalled(word string, k *stepKind) *stepKind {
	k.types = append(k.types, word)
	return k
}

// evaluating lets the earlier keys of a type of steps hold an expression too.
func evaluating(k *stepKind) *stepKind {
	is := either(k.keys[0].is, anExpr)
	k.oldIs = &is
	return k
}

// needing gives a type of steps keys that have to be there.
func needing(k *stepKind, names ...string) *stepKind {
	for _, n := range names {
		k.needs = append(k.needs, []string{n})
	}
	return k
}

// What several types of steps have.
var (
	onError    = key{name: "on_error", is: aTarget, fallback: "that of the flow", about: "Where an error leads."}
	onDeadline = key{name: "on_deadline", is: aTarget, fallback: "cancel", about: "Where the flow goes on then."}
	onCancel   = key{name: "on_cancel", is: aTarget, fallback: "cancel", about: "Where the flow goes on when the user cancels here."}
	inputs     = key{name: "inputs", is: theArgs, about: "A text without braces is the path of a slot; a text itself is written `\"{{ 'text' }}\"`."}
	outputs    = key{name: "outputs", old: []string{"map_outputs"}, is: theOuts, about: "The output is on the left. What isn't named goes by its name."}
	invokeKeys = []key{
		inputs, outputs, onError,
		{name: "timeout", is: aDuration, fallback: "the action's", about: "In the place of the action's."},
		{name: "retry", is: a(retryObject), fallback: "the action's", about: "In the place of the action's."},
	}
)

// deadline is how long a step waits.
func deadline(about string) key { return key{name: "deadline", is: aDuration, about: about} }

// stepKinds are the types of steps, in the order in which they are told.
var stepKinds = []*stepKind{
	stepOf("say", "Puts words into the reply and goes on.", someWords, []string{"message", "response", "text"},
		key{name: "rephrase", is: aBoolean, fallback: "the response's", about: "Whether a model may word it anew."},
		key{name: "wait_for_ack", is: aBoolean, fallback: "false", about: "Whether the flow waits for the next message."}),
	stepOf("collect", "Waits until its slots are filled. Those that are filled are passed over.", someSlots, []string{"slot", "slots"},
		key{name: "ask", old: []string{"prompt", "message"}, is: someWords, fallback: "the slot's", about: "The question; for several slots one question for all that are missing."},
		key{name: "invalid", old: []string{"invalid_message", "validation_error_message"}, is: someWords, fallback: "the slot's", about: "Said when a value is refused."},
		key{name: "validate", old: []string{"validator"}, is: someNames, about: "Validators after those of the slot."},
		key{name: "force", is: aBoolean, fallback: "false", about: "Whether it asks on each visit."},
		key{name: "options_from", is: aSlot, about: "A slot with a list to choose from."},
		key{name: "display", is: aText, about: "How an item of it is shown; `option` is the item."},
		key{name: "page_size", is: aCount, fallback: "5", about: "How many are shown at once."},
		key{name: "max_attempts", is: aCount, fallback: "that of settings", about: "Refused answers before `on_invalid`."},
		key{name: "on_invalid", is: aTarget, fallback: "that of settings", about: "Where the flow goes on then."},
		deadline("Time for an answer, from when the question is first asked."), onDeadline, onCancel),
	stepOf("set", "Stores values, in order; later ones see earlier ones.", shape{words: "map from slot to " + link("value", "What is written"), schema: ref("assignments")}, []string{"slots", "values"}),
	stepOf("action", "Runs an action.", anAction, []string{"call", "action"}, invokeKeys...),
	evaluating(stepOf("branch", "Goes where the first case leads that holds; if none does, to the next step.", either(listOf(a(caseObject)), aSlot), []string{"slot", "input", "evaluate", "when"},
		key{name: "cases", is: shape{words: "map from pattern to target", schema: &schema{Type: oneType{"object"}, AdditionalProperties: ref("target"), MinProperties: 1}}, about: "For `branch: SLOT`. A pattern is `\">100\"` or another comparison with a number or a quoted text, `true`, `false`, `none`, or exactly that text; `default` is tried last."})),
	needing(stepOf("while", "Repeats steps as long as the expression holds. Each round visits them anew.", anExpr, []string{"condition"},
		key{name: "do", is: shape{words: "list of " + link("steps", "Steps"), schema: &schema{Type: oneType{"array"}, MinItems: 1, Items: &schema{AnyOf: []*schema{ref("step"), aStepName.schema}}}}, about: "The steps, or names of steps that are written elsewhere in the flow."},
		key{name: "exit", old: []string{"exit_to"}, is: aTarget, fallback: "continue", about: "Where the flow goes on at the end."}), "do"),
	needing(stepOf("confirm", "Asks whether what it shows is right. A yes counts for exactly these values.", someSlots, []string{"slot", "slots"},
		key{name: "ask", old: []string{"prompt", "message"}, is: someWords, about: "The question; needed."},
		key{name: "on_yes", old: []string{"on_confirm"}, is: aTarget, fallback: "continue", about: "Where a yes leads."},
		key{name: "on_no", old: []string{"on_deny"}, is: aTarget, fallback: "cancel", about: "Where a no leads."},
		key{name: "on_change", is: aTarget, fallback: "asks again", about: "Where a changed value leads."},
		key{name: "max_retries", is: aCount, fallback: "that of patterns", about: "Unclear answers before `on_limit`."},
		key{name: "on_limit", old: []string{"on_max_retries"}, is: aTarget, fallback: "that of patterns", about: "Where the flow goes on then."},
		key{name: "store", is: aSlot, about: "A slot for the answer, as a boolean."},
		deadline("Time for an answer."), onDeadline), "ask"),
	alsoCalled("call_flow", stepOf("call", "Runs another flow and comes back.", aFlow, []string{"target", "flow"}, inputs, outputs, onError, onCancel)),
	stepOf("link", "Ends this flow as completed and starts another in its place.", aFlow, []string{"target", "flow"}, inputs),
	stepOf("generate", "Has a model write a text, into the reply or into a slot.", a(generateObject), nil,
		key{name: "store", is: aSlot, about: "The slot."}),
	stepOf("agent", "Lets a model work with tools until it is done.", a(agentObject), nil, onError),
	stepOf("handoff", "Passes the conversation to a person; the flow goes on when it is released.", shape{words: "name of a queue", schema: &schema{Type: oneType{"string", "number"}}}, nil,
		key{name: "context", is: someSlots, about: "What the person is shown."},
		deadline("When the bot takes over again; without it that of patterns."), onDeadline),
	stepOf("wait", "Sleeps for a time, or until an event.", either(aTime, a(waitObject)), nil,
		key{name: "outputs", is: theOuts, about: "Fields of the event, on the left, and their slots."}, onDeadline),
	stepOf("parallel", "Runs actions at once. The first error in the order written counts, once all have ended.", listOf(a(parallelObject)), nil),
}

// stepKindOf returns a type of steps, nil if there is none of the name.
func stepKindOf(name string) *stepKind {
	if i := slices.IndexFunc(stepKinds, func(k *stepKind) bool { return slices.Contains(k.types, name) }); i >= 0 {
		return stepKinds[i]
	}
	return nil
}

// stepTypes are the keys that say what a step does.
var stepTypes = func() []string {
	var names []string
	for _, k := range stepKinds {
		names = append(names, k.types[0])
	}
	return names
}()

var caseObject = &object{
	name: "case", what: "a case",
	keys: []key{
		{name: "when", old: []string{"condition"}, is: anExpr, about: "When it holds."},
		{name: "then", is: aTarget, about: "Where it leads."},
		{name: "else", is: aTarget, about: "In the place of both: where the flow goes on if no case before holds."},
	},
	needs: [][]string{{"when", "else"}, {"then", "else"}}, apart: [][2]string{{"when", "else"}, {"then", "else"}},
}

var generateObject = &object{
	name: "generate", what: "generate",
	keys: []key{
		{name: "instruction", is: aText, about: "What to write; may hold `{path}`."},
		{name: "context", is: someSlots, about: "What the model is shown."},
		{name: "max_tokens", is: aCount, fallback: "300", about: "How long the text may be."},
		{name: "store", is: aSlot, about: "The slot for it; without one it is said."},
	},
	needs: [][]string{{"instruction"}},
}

var agentObject = &object{
	name: "agent", what: "agent",
	keys: []key{
		{name: "instruction", is: aText, about: "What to do; may hold `{path}`."},
		{name: "tools", is: someNames, about: "Actions that it may use; none that is irreversible."},
		{name: "may_set", is: someSlots, about: "Slots that it may fill."},
		{name: "max_steps", is: aCount, fallback: "12", about: "Moves; more is the error `agent_limit`."},
		{name: "exit_when", is: anExpr, about: "When it is done."},
	},
	needs: [][]string{{"instruction"}},
}

var waitObject = &object{
	name: "wait", what: "wait",
	keys: []key{
		{name: "event", is: aName, about: "What is waited for."},
		{name: "deadline", is: aDuration, about: "How long."},
	},
	needs: [][]string{{"event"}},
}

var parallelObject = &object{
	name: "parallel", what: "a step of parallel",
	keys:  slices.Concat([]key{{name: "action", is: anAction, about: "The action."}, {name: "step", is: aStepName, about: "Its name, for readers."}}, invokeKeys),
	needs: [][]string{{"action"}},
}
