package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
)

// Check looks at a text and returns what is said in its place, empty if it may stand. An
// error fails the turn.
type Check func(ctx context.Context, text string) (instead string, err error)

// GuardInput checks what the user says, each message once, before the agent does anything
// with it. What may not stand is answered with what the check returns, and the turn ends.
func GuardInput[S any, P agent.Stateful[S]](check Check) agent.Middleware[S] {
	const name = "guard_input"
	return agent.Middleware[S]{Name: name, BeforeAgent: func(ctx context.Context, s *S) (agent.Next, error) {
		st := P(s).AgentState()
		messages, before, err := news(st, name)
		if err != nil {
			return agent.Onward, err
		}
		var texts []string
		for _, m := range messages {
			if m.Role == chat.RoleUser && digest(m.Text()) != before { // which was the input then
				texts = append(texts, m.Text())
			}
		}
		if st.UserInput != "" {
			texts = append(texts, st.UserInput)
		}
		for _, text := range texts {
			if instead, err := check(ctx, text); err != nil {
				return agent.Onward, err
			} else if instead != "" {
				st.Reply(instead)
				return agent.ToEnd, nil
			}
		}
		return agent.Onward, nil
	}}
}

// seen is how far a middleware has looked through a conversation.
type seen struct {
	Last  string `json:"last,omitempty"`  // ID of the last message
	Input string `json:"input,omitempty"` // a digest of what the user had said that was no message yet
}

// digest stands for a text where that itself must not be kept.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// news returns the messages that came since a middleware of a name called it last, whoever
// made them up, and a digest of what the user's input was then.
func news(st *agent.State, name string) (messages []chat.Message, input string, err error) {
	was, err := agent.Kept[seen](st, name)
	if err != nil {
		return nil, "", err
	}
	for m := range st.Messages.Backward() {
		if was.Last != "" && m.ID == was.Last {
			break
		}
		messages = append(messages, m)
	}
	slices.Reverse(messages)
	now := seen{Last: st.Messages.Last().ID}
	if st.UserInput != "" {
		now.Input = digest(st.UserInput)
	}
	if now == was {
		return messages, was.Input, nil
	}
	return messages, was.Input, agent.Keep(st, name, now)
}

// GuardOutput checks the model's answers before anybody is given them. What may not stand is
// replaced by what the check returns, in the thread, too. Tokens that were streamed before
// have been seen: [agent.ReAct.Whole] streams none.
func GuardOutput[S any, P agent.Stateful[S]](check Check) agent.Middleware[S] {
	return agent.Middleware[S]{Name: "guard_output", AfterModel: func(ctx context.Context, s *S) (agent.Next, error) {
		st := P(s).AgentState()
		last := st.Messages.Last()
		if last.Role != chat.RoleAssistant || last.Text() == "" {
			return agent.Onward, nil
		}
		instead, err := check(ctx, last.Text())
		if err != nil || instead == "" {
			return agent.Onward, err
		}
		said := chat.Assistant(instead)
		said.ID = last.ID
		st.Messages.Add(said)
		return agent.ToEnd, nil
	}}
}

// Kind is a kind of what a [Redaction] finds.
type Kind struct {
	Name    string // stands in the text instead: [REDACTED_<NAME>]
	Pattern *regexp.Regexp

	// Is, if set, says which matches of the pattern are meant. Of one that isn't, a part
	// may be: words of it, with spaces or hyphens between them.
	Is func(match string) bool
}

// replace replaces what is found in a text.
func (k *Kind) replace(text string, by func(match string) string) string {
	return k.Pattern.ReplaceAllStringFunc(text, func(match string) string {
		if k.Is == nil || k.Is(match) {
			return by(match)
		}
		return k.within(match, by)
	})
}

// within replaces the words of a match that are meant: the first, and of these the most.
func (k *Kind) within(match string, by func(match string) string) string {
	words := word.FindAllStringIndex(match, -1)
	for i := range words {
		for j := len(words) - 1; j >= i; j-- {
			from, to := words[i][0], words[j][1]
			if to-from < len(match) && k.Is(match[from:to]) {
				return match[:from] + by(match[from:to]) + k.within(match[to:], by)
			}
		}
	}
	return match
}

var word = regexp.MustCompile(`[^ \-]+`)

// Kinds of personal data.
var (
	Email      = Kind{Name: "email", Pattern: regexp.MustCompile(`[A-Za-z0-9._%+\-]+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)*\.[A-Za-z]{2,}`)}
	CreditCard = Kind{Name: "credit_card", Pattern: regexp.MustCompile(`\b\d(?:[ \-]?\d){12,18}\b`), Is: luhn}
	IPAddress  = Kind{Name: "ip", Pattern: regexp.MustCompile(`(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})|\b(?:\d{1,3}\.){3}\d{1,3}\b`), Is: func(m string) bool { return net.ParseIP(m) != nil }}
	MACAddress = Kind{Name: "mac", Pattern: regexp.MustCompile(`\b(?:[0-9A-Fa-f]{2}[:\-]){5}[0-9A-Fa-f]{2}\b`)}
	URL        = Kind{Name: "url", Pattern: regexp.MustCompile(`https?://[^\s"'<>]+`)}
)

// luhn is the check of ISO/IEC 7812.
func luhn(s string) bool {
	sum, n := 0, 0
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] < '0' || s[i] > '9' {
			continue
		}
		d := int(s[i] - '0')
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		n++
	}
	return n >= 13 && sum%10 == 0
}

// Way is what becomes of what is found.
type Way uint8

// The ways.
const (
	Replace Way = iota // [REDACTED_EMAIL]
	Mask               // all but the last four characters become *
	Hash               // <email_hash:1f2e3d4c>: the same for the same text
	Block              // a turn in which the user says such a thing ends; elsewhere it is replaced
)

// Redaction says what is taken out of a conversation, and where.
type Redaction struct {
	Kinds []Kind // none stands for [Email], [CreditCard], [IPAddress] and [MACAddress]
	Way   Way

	// Where it is looked for; none of them stands for Input and Results.
	Input   bool // what the user says
	Results bool // what tools return, before the model sees it
	Output  bool // what the model answers
}

// Redact takes personal data out of what the user says, what tools return and what the model
// answers: neither a model nor the thread gets it, but for a first checkpoint of what the
// user has said and of a tool's result, which are recorded when they come.
func Redact[S any, P agent.Stateful[S]](r Redaction) agent.Middleware[S] {
	if len(r.Kinds) == 0 {
		r.Kinds = []Kind{Email, CreditCard, IPAddress, MACAddress}
	}
	if !r.Input && !r.Results && !r.Output {
		r.Input, r.Results = true, true
	}
	const name = "redact"
	m := agent.Middleware[S]{Name: name, BeforeModel: func(_ context.Context, s *S) (agent.Next, error) {
		st := P(s).AgentState()
		found := ""
		if r.Input {
			st.UserInput = r.apply(st.UserInput, &found)
		}
		messages, _, err := news(st, name)
		if err != nil {
			return agent.Onward, err
		}
		for _, m := range messages {
			in, none := &found, ""
			switch {
			case r.Input && m.Role == chat.RoleUser:
			case r.Results && m.Role == chat.RoleTool:
				in = &none
			default:
				continue
			}
			if c, ok := r.message(m, in); ok {
				st.Messages.Add(c)
			}
		}
		if r.Way == Block && found != "" {
			st.Reply(fmt.Sprintf("I can't take that: please leave out what looks like %s.", strings.ReplaceAll(found, "_", " ")))
			return agent.ToEnd, nil
		}
		return agent.Onward, nil
	}}
	if r.Output {
		m.AfterModel = func(_ context.Context, s *S) (agent.Next, error) {
			st := P(s).AgentState()
			found := ""
			if c, ok := r.message(st.Messages.Last(), &found); ok && c.Role == chat.RoleAssistant {
				st.Messages.Add(c)
			}
			return agent.Onward, nil
		}
	}
	return m
}

// message returns a message without what is found in its texts, and whether there was any.
func (r *Redaction) message(m chat.Message, found *string) (chat.Message, bool) {
	parts, changed := r.parts(m.Parts, found)
	m.Parts = parts
	return m, changed
}

func (r *Redaction) parts(parts []chat.Part, found *string) ([]chat.Part, bool) {
	out, changed := slices.Clone(parts), false
	for i, p := range parts {
		switch p := p.(type) {
		case chat.Text:
			if text := r.apply(p.Text, found); text != p.Text {
				p.Text = text
				out[i], changed = p, true
			}
		case chat.ToolResult:
			if content, ok := r.parts(p.Content, found); ok {
				p.Content = content
				out[i], changed = p, true
			}
		}
	}
	return out, changed
}

func (r *Redaction) apply(text string, found *string) string {
	for _, k := range r.Kinds {
		text = k.replace(text, func(match string) string {
			*found = k.Name
			switch r.Way {
			case Mask:
				runes := []rune(match)
				return strings.Repeat("*", max(0, len(runes)-4)) + string(runes[max(0, len(runes)-4):])
			case Hash:
				sum := sha256.Sum256([]byte(match))
				return fmt.Sprintf("<%s_hash:%s>", k.Name, hex.EncodeToString(sum[:4]))
			}
			return "[REDACTED_" + strings.ToUpper(k.Name) + "]"
		})
	}
	return text
}
