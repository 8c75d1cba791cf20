// Package scripted is a language model for tests and examples: it answers from a
// script, the same way every time.
//
// [New] takes the replies in order: [Text], [Call], [Message], [Error] and
// [Func] make them, and their methods say when they come, how they are streamed
// and which requests they are for. [Record] writes down what a real model
// answers; [Play] answers from that file.
//
// # Order
//
// A call takes the first reply of the script that is not used up and whose
// [Reply.When] accepts the request. Calls take their replies in the order in
// which they begin: of [Model.Generate] when it is called, of [Model.Stream] when
// its iteration begins. Where calls begin at the same time, as in the parallel
// nodes of a graph, that order is the scheduler's; give each reply a When there.
//
// Answers carry no message ID unless the script gives one.
package scripted
