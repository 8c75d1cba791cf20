// Package nlg has language models say what assistants say: the texts of generate steps and
// the moves of agent steps ([Generator]), and replies in other words ([Rephraser]).
//
// A generator is the only one whose words reach the user as they are, and only where a step
// of the program says so. A rephraser's words are used if [Keeps] finds nothing in them that
// counts missing, changed or new; else what the program says is sent as it is.
package nlg
