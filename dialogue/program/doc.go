// Package program compiles an assistant from YAML into a [Program]: its flows and their
// steps, its slots, contracts of actions, responses and limits, typed and immutable.
//
// Every mistake is found at once. An error of [Compile] is [Findings], one line each,
// with the file, line, column, flow and step, what is wrong and how to mend it.
//
// A program says what an assistant may do; package dialogue says what it does next.
package program
