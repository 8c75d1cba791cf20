// Package demomodel has a model that is no language model: it knows a few
// sentences by heart and calls tools for them, so that a chat can be tried, and
// tested, without a key and without a network.
package demomodel

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/tools"
	"github.com/superstep-dev/superstep/model"
)

// Help lists what the model understands, a sentence each.
const Help = `  what is 6*7
  read FILE
  list files
  what time is it
  what time is it in Europe/Berlin
  write FILE TEXT
  ... , then ...      (two of them, one after the other)`

// Model is the demonstration model. It streams word by word.
type Model struct{}

// Generate implements [model.Model].
func (m Model) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	return model.Collect(m.Stream(ctx, req))
}

// Stream implements [model.Model].
func (Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		m := answer(req)
		for _, word := range strings.SplitAfter(m.Text(), " ") {
			if err := ctx.Err(); err != nil {
				yield(chat.Chunk{}, err)
				return
			}
			if word != "" && !yield(chat.Chunk{Text: word}, nil) {
				return
			}
		}
		last := chat.Chunk{Model: "demo", Finish: m.Finish}
		for i, c := range m.ToolCalls() {
			last.ToolCalls = append(last.ToolCalls, chat.ToolCallChunk{Index: i, ID: c.ID, Name: c.Name, Args: c.Args})
		}
		yield(last, nil)
	}
}

var (
	sum   = regexp.MustCompile(`(?i)^(?:what(?:'s| is)|calculate|how much is)\s+(.*\d.*)$`)
	read  = regexp.MustCompile(`(?i)^read\s+(\S+)$`)
	list  = regexp.MustCompile(`(?i)^list(?:\s+(?:the\s+)?files)?(?:\s+(?:in\s+)?(\S+))?$`)
	clock = regexp.MustCompile(`(?i)^(?:what time is it|what is the time)(?:\s+in\s+(\S+))?$`)
	write = regexp.MustCompile(`(?is)^write\s+(\S+)\s+(.+)$`)
)

// operators turns what is said of numbers into what a calculator reads.
var operators = strings.NewReplacer(" times ", " * ", " multiplied by ", " * ", " divided by ", " / ", " plus ", " + ", " minus ", " - ")

// answer says the next thing in a conversation.
func answer(req *model.Request) chat.Message {
	user, results := turn(req.Messages)
	if len(req.Tools) == 0 {
		return said(summary(user))
	}
	steps := strings.Split(user, ", then ")
	var told []string
	for i, step := range steps {
		// The IDs of a conversation's calls differ: each has another place.
		call, ok := understand(fmt.Sprintf("demo-%d", len(req.Messages)), step)
		if !ok {
			told = append(told, "I am the demonstration model and understand only:\n"+Help)
			break
		}
		if i < len(results) {
			told = append(told, tell(call, results[i]))
			continue
		}
		m := chat.Assistant("", call)
		m.Finish = chat.FinishToolCalls
		return m
	}
	return said(strings.Join(told, "\n"))
}

func said(text string) chat.Message {
	m := chat.Assistant(text)
	m.Finish = chat.FinishStop
	return m
}

// turn returns what the user said last, and the results of tools since.
func turn(messages []chat.Message) (user string, results []chat.ToolResult) {
	for _, m := range messages {
		if m.Role == chat.RoleUser {
			user, results = strings.TrimSpace(m.Text()), nil
		}
		if r, ok := m.ToolResult(); ok {
			results = append(results, r)
		}
	}
	return user, results
}

// understand returns the call of a tool that a sentence asks for.
func understand(id, text string) (chat.ToolCall, bool) {
	text = strings.TrimSpace(text)
	plain := strings.TrimRight(text, " ?.!")
	call := func(name string, args any) (chat.ToolCall, bool) {
		data, err := json.Marshal(args)
		return chat.ToolCall{ID: id, Name: name, Args: string(data)}, err == nil
	}
	if m := write.FindStringSubmatch(text); m != nil {
		return call(tools.WriteFile, tools.WriteArgs{Path: m[1], Text: m[2] + "\n"})
	}
	if m := clock.FindStringSubmatch(plain); m != nil {
		return call(tools.Clock, arguments("zone", m[1]))
	}
	if m := sum.FindStringSubmatch(plain); m != nil {
		return call(tools.Calculator, arguments("expression", operators.Replace(m[1])))
	}
	if m := read.FindStringSubmatch(text); m != nil {
		return call(tools.ReadFile, arguments("path", m[1]))
	}
	if m := list.FindStringSubmatch(plain); m != nil {
		return call(tools.ListFiles, arguments("folder", m[1]))
	}
	return chat.ToolCall{}, false
}

func arguments(name, value string) map[string]string {
	if value == "" {
		return map[string]string{}
	}
	return map[string]string{name: value}
}

// shown is how many lines of a file the model repeats.
const shown = 10

// tell puts a result in words.
func tell(call chat.ToolCall, r chat.ToolResult) string {
	text := strings.TrimRight(r.Text(), "\n")
	if r.IsError {
		return "That did not work: " + strings.TrimPrefix(text, "[TOOL ERROR] "+call.Name+": ")
	}
	var args map[string]string
	if err := json.Unmarshal([]byte(call.Args), &args); err != nil {
		return text
	}
	switch call.Name {
	case tools.Calculator:
		return args["expression"] + " = " + text
	case tools.Clock:
		return "It is " + text + "."
	case tools.ReadFile:
		lines := strings.Split(text, "\n")
		head := fmt.Sprintf("%s has %d lines:", args["path"], len(lines))
		if len(lines) > shown {
			head = fmt.Sprintf("%s has %d lines, of which these are the first:", args["path"], len(lines))
			lines = lines[:shown]
		}
		return head + "\n" + strings.Join(lines, "\n")
	case tools.ListFiles:
		return "The files are:\n" + text
	}
	return "Done: " + text + "."
}

// summary stands for that of a document.
func summary(text string) string {
	if _, doc, ok := strings.Cut(text, "<document>"); ok {
		text, _, _ = strings.Cut(doc, "</document>")
	}
	words := strings.Fields(text)
	return fmt.Sprintf("The demonstration model was given %d words. They begin: %s …", len(words), strings.Join(words[:min(len(words), 12)], " "))
}
