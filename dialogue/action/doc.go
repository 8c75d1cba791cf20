// Package action is the code behind the actions and validators of a dialogue's program.
//
// [New] makes an action of a Go function whose inputs and outputs are Go types,
// [NewValidator] a validator. [HTTP] takes both from another process, which serves them
// with a [Handler] or is written in any language, and [Tool] makes an action of a tool,
// such as those of a server of the Model Context Protocol. A [Set] holds all that an
// assistant needs: it runs what a conversation asks for, and checks beforehand that the
// code is there and fits what the program says of it.
//
// A failure is told by its type, which flows can look at: [*dialogue.Failure] is what an
// action says on purpose. What goes wrong otherwise has one of these types, and its text
// goes to the log, not into the conversation:
//
//	action_not_found  no code has the name
//	invalid           the inputs are not what the code takes
//	invalid_output    what came back are no outputs
//	timeout           it took too long
//	unavailable       another process or a tool's server can't be reached
//	cancelled         the context ended before the action
//	unknown           any other error, and a panic
//
// Nothing here tries an action again: whoever runs the conversation does, as the
// program's retry says, with one idempotency key for all attempts.
package action
