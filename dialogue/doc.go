// Package dialogue runs task-oriented assistants: conversations that are deterministic,
// durable and can be replayed. What an assistant may do is a [program.Program], compiled
// from YAML; where a conversation stands is a [State]; what happens next is decided by
// [Advance] alone, which is pure: no clock, no randomness, no I/O.
//
// A language model at most turns what a user says into a [Command] of a closed set.
// Commands name no action, skip no guard, set no slot that the running or starting flow
// doesn't collect, and confirm nothing that wasn't just shown. An irreversible action
// runs only after a confirm of the very values that it is given, and one visit of a
// step has one idempotency key, whatever is repeated or delivered twice.
//
// Advance takes a state and an [Input] (a message, the result of an effect, an event, a
// deadline) and returns the new state and the effects to be done: have the message
// understood, run an action, ask a validator or a model, send the reply. An effect that
// is lost in a crash is found again in [State.Pending].
//
// A flow on the stack is pinned to the flow as it was when it began: programs that know
// each other ([program.Program.With]) let it go on so, and [Standings] says what becomes
// of a conversation when the program changes. [State.Masked] is a state as it may be shown.
//
// [Read] understands short answers to the open question without a model.
package dialogue
