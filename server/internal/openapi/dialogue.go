package openapi

import (
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"
)

// conversations are the operations of a server that speaks for an assistant.
func conversations() map[string]operation {
	one := func(body string) []example { return []example{{"example", body}} }
	fails := []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	layout := parameter{"layout", oneOf("Adds where things are, from top to bottom or from left to right.", "TB", "LR"), "TB"}
	button := example{"button", `{"user_id": "` + ExampleUser + `", "commands": [{"type": "cancel_flow"}], "message_id": "m-2", "language": "en", "channel": "web"}`}
	return map[string]operation{
		"chat": {
			fails: fails, summary: "Say something to the assistant, and get the reply",
			about: "A message that is sent again with the same message_id gets the reply that it got. 503 with the header Retry-After means that it may be sent again.",
			in:    required("ChatBody", "user_id"), inputs: []example{{"message", `{"user_id": "` + ExampleUser + `", "message": "hello"}`}, button}, out: answer{schema: ref("ChatReply", "")},
		},
		"chatAs": {
			fails: fails, summary: "The same, with the user in the path",
			in: ref("ChatBody", ""), inputs: one(`{"message": "hello"}`), out: answer{schema: ref("ChatReply", "")},
		},
		"streamChat": {
			fails: fails[:1], summary: "Say something, and follow the turn to the reply",
			about: "Each event is an object with a type: start; node, action, validator and model with a name and a status (started, completed, failed); token with a piece of the reply as content; at the end done, with what POST /chat answers, or error with status and detail. The turn goes on when the client leaves.",
			in:    ref("ChatBody", ""), inputs: one(`{"message": "hello"}`), out: answer{about: "The events, to the end of the turn.", media: mediaSSE},
		},
		"getConversation":    {summary: "Show a conversation, with sensitive values masked", out: answer{schema: ref("Conversation", "")}},
		"deleteConversation": {summary: "Stop what goes on in a conversation, and remove it", out: answer{status: http.StatusNoContent, about: "It is gone."}},
		"listFlows": {
			summary: "List and draw the flows of the assistant, with the calls between them", query: []parameter{layout}, out: answer{schema: ref("Flows", "")},
		},
		"drawFlow": {
			summary: "Draw a flow", query: []parameter{layout, {"version", text("The version at which a conversation stands, if it is not the newest."), ""}}, out: answer{schema: ref("Drawing", "")},
		},
		"listTurns": {
			fails: []int{http.StatusConflict}, summary: "Say why a conversation went as it did, turn by turn",
			about: "What was said, which commands that was taken for and who gave them, steps, slots, actions, the reply, and where each flow stood then. Sensitive values are masked.",
			query: []parameter{{"limit", whole("So many turns, the newest: 50, or up to 1000."), "20"}, {"before", whole("Those before this turn."), ""}},
			out:   answer{schema: ref("Turns", "")},
		},
		"exportTest": {
			fails: []int{http.StatusConflict}, summary: "Make a conversation a test of the assistant",
			about: "A file for superstep dialogue test, with stand-ins for sensitive values. Comments at its head say what is not told, and what does not hold.",
			out:   answer{media: "application/yaml"},
		},
		"health": {summary: "Whether the server lives", out: answer{schema: record("",
			member{"status!", text("healthy")}, member{"version!", text("")}, member{"timestamp!", at("")})}},
		"startup": {summary: "Whether the server has started", out: answer{schema: record("", member{"started!", yesno("")})}},
		"version": {summary: "What the server runs", out: answer{schema: record("",
			member{"version!", text("Of Superstep.")}, member{"assistant!", text("The name of the program.")}, member{"graph!", text("By which clients of threads know it.")})}},
	}
}

// conversationSchemas are the bodies of their requests and answers.
func conversationSchemas() map[string]*jsonschema.Schema {
	frames := list("The newest last, which is the active one.", free(""))
	reply := []member{
		{"user_id!", text("")},
		{"message_id!", text("The client's, or the one that the server gave it.")},
		{"response!", text("The whole text.")},
		{"messages!", list("What is said, one after another: text, buttons, media, custom.", free(""))},
		{"waiting!", nullable(free("The question that is open: type, slot, options and the id for buttons."))},
		{"flow_state!", text("idle, waiting_for_slot, confirming, completed, handoff, …")},
		{"active_flow!", nullable(text(""))},
		{"turn_count!", whole("")},
		{"language!", text("")},
		{"events!", list("", free(""))},
	}
	return map[string]*jsonschema.Schema{
		"ChatBody": record("What a user says or presses. Other members are refused.",
			member{"user_id", text("Whose conversation it is. May be left out where the path says it.")},
			member{"message", text("What the user says; it may be left out if there are commands.")},
			member{"message_id", text("Of a message that may be sent twice.")},
			member{"language", text("One of the assistant's; the default is the one before, or its own.")},
			member{"channel", text("")},
			member{"commands", list("Those of a button.", free(""))},
			member{"question", text("The id of the question that the button belongs to.")},
		),
		"Flows": record("The flows of an assistant in YAML.",
			member{"name!", text("")},
			member{"description!", text("")},
			member{"languages!", list("The first is the default.", text(""))},
			member{"flows!", list("As they are written.", record("",
				member{"name!", text("")},
				member{"description!", text("")},
				member{"internal!", yesno("Users can't start it.")},
				member{"version!", text("Of what it does.")},
			))},
			member{"graph!", ref("Drawing", "A node for each flow.")},
		),
		"Turns": record("What happened in a conversation.",
			member{"thread_id!", text("")},
			member{"turns!", list("The oldest first.", free("turn, time, began, user, understanding_asked, commands, trace, replies, messages, actions, validations, model_answers, state, waiting_for_slot, question, stack, slots, session, hidden, rephrased, ended."))},
			member{"more!", yesno("There are older ones.")},
		),
		"ChatReply": record("The reply to a message.", reply...),
		"Conversation": record("How a conversation stands.",
			member{"user_id!", text("")},
			member{"thread_id!", text("")},
			member{"flow_state!", text("")},
			member{"active_flow!", nullable(text(""))},
			member{"current_step!", nullable(text(""))},
			member{"waiting_for_slot!", nullable(text("Or confirm:STEP."))},
			member{"slots!", free("Of the active flow.")},
			member{"session!", free("Of the whole conversation.")},
			member{"flow_stack!", frames},
			member{"flow_slots!", named("By flow_id.", free(""))},
			member{"last_response!", text("")},
			member{"messages!", list("The newest last.", free(""))},
			member{"turn_count!", whole("")},
			member{"error!", nullable(free("Of the last turn: type, text, at."))},
			member{"updated_at!", at("")},
		),
	}
}
