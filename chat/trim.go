package chat

// Counter counts, or estimates, the tokens of a message.
type Counter func(m Message) int

// EstimateTokens is a [Counter] that needs no tokenizer: a token for every four
// bytes of text, arguments and names, four for the message, and 800 for each
// image, sound and file. English text has about so many; other languages have
// up to three times as many.
func EstimateTokens(m Message) int {
	return 4 + (textBytes(m.Parts)+3)/4 + mediaTokens*countMedia(m.Parts)
}

const mediaTokens = 800

func textBytes(parts []Part) int {
	n := 0
	for _, p := range parts {
		switch p := p.(type) {
		case Text:
			n += len(p.Text)
		case Reasoning:
			n += len(p.Text)
		case ToolCall:
			n += len(p.Name) + len(p.Args)
		case ToolResult:
			n += len(p.Name) + textBytes(p.Content)
		}
	}
	return n
}

func countMedia(parts []Part) int {
	n := 0
	for _, p := range parts {
		switch p := p.(type) {
		case Image, Audio, File:
			n++
		case ToolResult:
			n += countMedia(p.Content)
		}
	}
	return n
}

// TrimTokens returns what a model with room for max tokens can take: the
// messages of the system that stand at the beginning, and of the rest the newest
// turns that fit. A turn begins with a message of the user, so that no answer
// loses its question and no tool's result its call. If not even the newest turn
// fits, it is cut from its beginning, between a result and the next message, as
// far as is needed; the last message stays in any case. Max counts as count
// does; a nil count is [EstimateTokens].
func TrimTokens(messages []Message, max int, count Counter) []Message {
	if count == nil {
		count = EstimateTokens
	}
	head, rest := splitSystem(messages)
	for _, m := range head {
		max -= count(m)
	}
	total, from, cut := 0, len(rest), len(rest)
	for i := len(rest) - 1; i >= 0; i-- {
		if total += count(rest[i]); total > max {
			break
		}
		if rest[i].Role == RoleUser {
			from = i
		}
		if begins(rest, i) {
			cut = i
		}
	}
	switch {
	case from < len(rest):
	case cut < len(rest):
		from = cut
	default: // not even the last unit fits
		for from = len(rest); from > 0; {
			from--
			if begins(rest, from) {
				break
			}
		}
	}
	return join(head, rest[from:])
}

// begins reports whether a conversation may begin at i: not with the result of a
// tool that would lose its call.
func begins(messages []Message, i int) bool { return messages[i].Role != RoleTool }

// TrimTurns returns the messages of the system that stand at the beginning, and
// the newest n turns. A turn begins with a message of the user.
func TrimTurns(messages []Message, n int) []Message {
	head, rest := splitSystem(messages)
	from := len(rest)
	for i := len(rest) - 1; i >= 0 && n > 0; i-- {
		if rest[i].Role == RoleUser {
			from = i
			n--
		}
	}
	if n > 0 { // fewer turns than asked for
		from = 0
	}
	return join(head, rest[from:])
}

func splitSystem(messages []Message) (head, rest []Message) {
	i := 0
	for i < len(messages) && messages[i].Role == RoleSystem {
		i++
	}
	return messages[:i], messages[i:]
}

func join(head, rest []Message) []Message {
	return append(append(make([]Message, 0, len(head)+len(rest)), head...), rest...)
}
