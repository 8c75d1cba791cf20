// Package nlu understands what users say: it turns a message into the commands of package
// dialogue, where the message isn't simply the answer to the open question, which
// [dialogue.Read] reads without a model.
//
// [New] asks a language model, once a message. The schema of the answer lists only what can
// be meant now: the flows that may start, the slots that may be filled with the types of
// their values, the options that are open, and the commands that make sense. What users and
// programs say reaches the model as JSON strings, never as instructions; what actions
// return, and so what the assistant said, reaches it only as values of slots. Whatever the
// model answers, it can ask for nothing else than these commands, and the program refuses
// them where it has to: see [dialogue.Advance].
//
// The prompt keeps to a budget of tokens. Where the flows are too many for it, those are
// put in that fit the message best.
//
// [Script] and [Patterns] understand without a model: for tests, and for talking to an
// assistant without a key.
package nlu
