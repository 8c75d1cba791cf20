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
		case Native:
			n += len(p.Data)
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
// fits, it is the user's message and the newest rounds of it that fit, calls with
// all their results: the oldest rounds are left out. The user's message and the last
// round stay in any case. Max counts as count does; a nil count is [EstimateTokens].
func TrimTokens(messages []Message, max int, count Counter) []Message {
	if count == nil {
		count = EstimateTokens
	}
	head, rest := splitSystem(messages)
	for _, m := range head {
		max -= count(m)
	}
	total, from := 0, len(rest)
	for i := len(rest) - 1; i >= 0; i-- {
		if total += count(rest[i]); total > max {
			break
		}
		if rest[i].Role == RoleUser {
			from = i
		}
	}
	if total <= max { // all of it fits, whoever begins
		return join(head, rest)
	}
	if from < len(rest) {
		return join(head, rest[from:])
	}
	return join(head, trimTurn(rest, max, count))
}

// trimTurn returns the beginning and the newest rounds of the last turn.
func trimTurn(rest []Message, max int, count Counter) []Message {
	var asked []Message
	for i := len(rest) - 1; i >= 0; i-- {
		if rest[i].Role == RoleUser {
			asked, rest = rest[i:i+1], rest[i+1:]
			max -= count(asked[0])
			break
		}
	}
	return join(asked, rest[NewestRounds(rest, max, count):])
}

// NewestRounds returns where the newest rounds of a turn begin that fit in max tokens, as
// count counts. A round is an answer with the results of the tools that it calls; the last
// one stays in any case. The turn is without the message that began it.
func NewestRounds(turn []Message, max int, count Counter) int {
	from, total := len(turn), 0
	for i := len(turn) - 1; i >= 0; i-- {
		total += count(turn[i])
		if total > max && from < len(turn) {
			break
		}
		if begins(turn, i) {
			from = i
		}
	}
	return from
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
