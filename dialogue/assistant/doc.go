// Package assistant runs the dialogues of a [program.Program] on the engine: as a graph
// whose threads are conversations. What package dialogue decides is pure; this package
// does what it asks for: has messages understood, runs actions and models, and waits.
//
// The graph always has the same nodes, whatever the program says. A message enters at
// understand, which turns it into commands. What they mean is worked out in
// validate_slot, handle_digression or handle_intent_change, silently: however many steps
// of however many flows they pass. What has to be done in the world (actions, models) is
// done in execute_action, in a superstep for each; generate_response has the last word
// about the reply; and collect_next_slot waits for what comes next: a message, an event
// or a deadline. When nothing is open, the run ends.
//
// So everything that a graph gives works on a conversation: any store, forks and time
// travel, edits, streams, exports and replays, and deadlines that a [graph.Runner] wakes.
//
// [New] builds the assistant; [Assistant.Say] is a turn. Servers and command lines are
// given [Assistant.Graph]: its input is an [Input], an answer to its question is a text
// or a [Turn], and its output is an [Output].
package assistant
