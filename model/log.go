package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
)

// LogOptions says what [Logged] logs.
type LogOptions struct {
	// Contents logs the messages of requests and answers too: their text,
	// reasoning, tool calls and results. Of pictures, sounds and documents only
	// the kind, type and size are logged.
	Contents bool

	// Mask are secrets, beside those that are known by their form; see
	// [Logged]. What they match is replaced in everything that is logged.
	Mask []*regexp.Regexp
}

// masked stands for a secret.
const masked = "[masked]"

// secrets are the forms of keys that are masked always. Groups before and behind
// are kept.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`\b()(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}`),
	regexp.MustCompile(`\b()AIza[A-Za-z0-9_-]{20,}`),
	regexp.MustCompile(`\b()(?:gh[pousr]_|github_pat_|glpat-|hf_|gsk_|xai-)[A-Za-z0-9_-]{16,}`),
	regexp.MustCompile(`\b()xox[a-z]-[A-Za-z0-9-]{10,}`),
	regexp.MustCompile(`\b()(?:AKIA|ASIA)[A-Z0-9]{16}\b`),
	regexp.MustCompile(`\b()eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+`),
	regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)(authorization\\?["']?\s*[:=]\s*\\?["']?(?:(?:bearer|basic|token|digest|apikey)\s+)?)[^\s"'\\,;\[]{4,}`),
	regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://[^\s/?#@:"']*:)[^\s/"'<>]+(@)`), // a URL's password
	regexp.MustCompile(`([?&](?:key|token|sig|signature)=)[^&\s"']+`),
	regexp.MustCompile(`(?i)((?:api[-_ ]?key|access[-_ ]?token|auth[-_ ]?token|client[-_ ]?secret|secret[-_ ]?key|password|passwd)\\?["']?\s*[:=]\s*\\?["']?)[^\s"'\\,;&}\[]{4,}`),
}

// Logged returns a model that logs its calls to l: requests and answers at level
// debug, with the duration, model and tokens; failures at level warn. Nil means
// [slog.Default] at the time of each call.
//
// API keys, bearer tokens, passwords and the like are masked wherever they
// stand, as far as their form tells.
func Logged(m Model, l *slog.Logger, o LogOptions) Model { return &logged{m, l, o} }

type logged struct {
	m Model
	l *slog.Logger
	o LogOptions
}

func (g *logged) Generate(ctx context.Context, req *Request) (*Response, error) {
	done := g.begin(ctx, req, false)
	resp, err := g.m.Generate(ctx, req)
	if err != nil {
		done(chat.Message{}, err)
		return resp, err
	}
	if resp.Cached {
		done(resp.Message, nil, slog.Bool("cached", true))
	} else {
		done(resp.Message, nil)
	}
	return resp, nil
}

func (g *logged) Stream(ctx context.Context, req *Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		done := g.begin(ctx, req, true)
		start, chunks := time.Now(), 0
		var first time.Duration
		var sum chat.Collector
		end := func(err error, more ...slog.Attr) {
			if chunks > 0 {
				more = append(more, slog.Int("chunks", chunks), slog.Duration("first_chunk", first))
			}
			done(sum.Message(), err, more...)
		}
		for chunk, err := range g.m.Stream(ctx, req) {
			if err != nil {
				end(err)
				yield(chat.Chunk{}, err)
				return
			}
			if chunks++; chunks == 1 {
				first = time.Since(start)
			}
			sum.Add(chunk)
			if !yield(chunk, nil) {
				end(nil, slog.Bool("abandoned", true))
				return
			}
		}
		end(nil)
	}
}

// begin logs a request and returns a function that logs what came of it.
func (g *logged) begin(ctx context.Context, req *Request, stream bool) func(m chat.Message, err error, more ...slog.Attr) {
	l := g.l
	if l == nil {
		l = slog.Default()
	}
	start := time.Now()
	if l.Enabled(ctx, slog.LevelDebug) {
		attrs := []slog.Attr{slog.Int("messages", len(req.Messages))}
		if req.Model != "" {
			attrs = append(attrs, g.text("model", req.Model))
		}
		if len(req.Tools) > 0 {
			attrs = append(attrs, slog.Int("tools", len(req.Tools)))
		}
		if req.Output != nil {
			attrs = append(attrs, g.text("output", req.Output.Name))
		}
		if stream {
			attrs = append(attrs, slog.Bool("stream", true))
		}
		if g.o.Contents {
			attrs = append(attrs, g.text("content", contents(req.Messages)))
		}
		l.LogAttrs(ctx, slog.LevelDebug, "model request", attrs...)
	}
	return func(m chat.Message, err error, more ...slog.Attr) {
		level, text := slog.LevelDebug, "model answer"
		if err != nil {
			level, text = slog.LevelWarn, "model failed"
		}
		if !l.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{slog.Duration("duration", time.Since(start))}
		name := m.Model
		if name == "" {
			name = req.Model
		}
		if name != "" {
			attrs = append(attrs, g.text("model", name))
		}
		if err != nil {
			var e *Error
			if errors.As(err, &e) {
				attrs = append(attrs, slog.String("kind", string(e.Kind)))
			}
			attrs = append(attrs, g.text("error", err.Error()))
		} else if m.Finish != "" {
			attrs = append(attrs, slog.String("finish", string(m.Finish)))
		}
		if u := m.Usage; u != nil {
			attrs = append(attrs, slog.Int("input_tokens", u.Input), slog.Int("output_tokens", u.Output))
			if u.CacheRead > 0 {
				attrs = append(attrs, slog.Int("cached_tokens", u.CacheRead))
			}
			if u.Reasoning > 0 {
				attrs = append(attrs, slog.Int("reasoning_tokens", u.Reasoning))
			}
		}
		if calls := m.ToolCalls(); len(calls) > 0 {
			names := make([]string, len(calls))
			for i, c := range calls {
				names[i] = c.Name
			}
			attrs = append(attrs, g.text("tool_calls", strings.Join(names, ",")))
		}
		attrs = append(attrs, more...)
		if g.o.Contents && len(m.Parts) > 0 {
			attrs = append(attrs, g.text("content", content(m.Parts)))
		}
		l.LogAttrs(ctx, level, text, attrs...)
	}
}

// text is an attribute without secrets. Whatever comes from outside is logged
// by it.
func (g *logged) text(key, s string) slog.Attr {
	for _, re := range g.o.Mask {
		s = re.ReplaceAllLiteralString(s, masked)
	}
	for _, re := range secrets {
		s = re.ReplaceAllString(s, "${1}"+masked+"${2}")
	}
	return slog.String(key, s)
}

func contents(messages []chat.Message) string {
	var b strings.Builder
	for i, m := range messages {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s", m.Role, content(m.Parts))
	}
	return b.String()
}

func content(parts []chat.Part) string {
	var b strings.Builder
	source := func(kind string, s chat.Source) {
		fmt.Fprintf(&b, "[%s", kind)
		if s.MIME != "" {
			fmt.Fprintf(&b, " %s", s.MIME)
		}
		switch {
		case strings.HasPrefix(s.URL, "data:"):
			fmt.Fprintf(&b, " URL of %s", count(len(s.URL), "byte"))
		case s.URL != "":
			fmt.Fprintf(&b, " %s", s.URL)
		case s.FileID != "":
			fmt.Fprintf(&b, " file %s", s.FileID)
		default:
			fmt.Fprintf(&b, " %s", count(len(s.Data), "byte"))
		}
		b.WriteByte(']')
	}
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch p := p.(type) {
		case chat.Text:
			b.WriteString(p.Text)
		case chat.Reasoning:
			fmt.Fprintf(&b, "[reasoning: %s]", p.Text)
		case chat.Citation:
			fmt.Fprintf(&b, "[cites %s %s]", p.URL, p.Title)
		case chat.Native:
			fmt.Fprintf(&b, "[%s's %s]", p.Provider, p.Type)
		case chat.ToolCall:
			fmt.Fprintf(&b, "[call %s %s]", p.Name, p.Args)
		case chat.ToolResult:
			kind := "result"
			if p.IsError {
				kind = "error"
			}
			fmt.Fprintf(&b, "[%s of %s: %s]", kind, p.Name, content(p.Content))
		case chat.Image:
			source("image", p.Source)
		case chat.Audio:
			source("audio", p.Source)
		case chat.File:
			source("file", p.Source)
		}
	}
	return b.String()
}
