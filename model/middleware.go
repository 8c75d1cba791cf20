package model

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/chat"
)

// maxHeld bounds the chunks that relay holds back.
const maxHeld = 8

// relay passes a stream on to yield until the stream fails or yield has enough.
// Chunks that say nothing yet, such as the ID and the role that some providers
// send at once, are held back until one says something: when the stream fails
// before that, another can take its place.
//
// It reports whether a chunk was passed on and whether yield wants more.
func relay(stream iter.Seq2[chat.Chunk, error], yield func(chat.Chunk, error) bool) (begun, more bool, err error) {
	var held []chat.Chunk
	for chunk, err := range stream {
		if err != nil {
			return begun, true, err
		}
		if !begun && silent(chunk) && len(held) < maxHeld {
			held = append(held, chunk)
			continue
		}
		for _, h := range held {
			begun = true
			if !yield(h, nil) {
				return true, false, nil
			}
		}
		held, begun = nil, true
		if !yield(chunk, nil) {
			return true, false, nil
		}
	}
	for _, h := range held {
		begun = true
		if !yield(h, nil) {
			return true, false, nil
		}
	}
	return begun, true, nil
}

// silent reports whether a chunk holds nothing of the answer itself.
func silent(k chat.Chunk) bool {
	return k.Text == "" && k.Reasoning == "" && len(k.ToolCalls) == 0 && len(k.Parts) == 0 && k.Finish == ""
}

// sleep waits for d, or for the end of the context, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bytesPerToken is what a token is long in English text, roughly. Other
// languages and code have shorter ones.
const bytesPerToken = 4

// mediaTokens is what a picture, sound or document counts in estimates.
const mediaTokens = 1000

// EstimateTokens returns about how many tokens a request has: one for four bytes
// of text, 1,000 for each picture, sound and document. It is what [Limiter] and
// [Budgeted] use where nothing better is known.
func EstimateTokens(req *Request) int {
	n := 0
	media := 0
	for i := range req.Messages {
		b, m := size(req.Messages[i].Parts)
		n, media = n+b, media+m
	}
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	if req.Output != nil {
		n += len(req.Output.Description) + len(req.Output.Schema)
	}
	return tokens(n) + media*mediaTokens
}

func estimateAnswer(m chat.Message) int {
	b, media := size(m.Parts)
	return tokens(b) + media*mediaTokens
}

func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// size returns the bytes of the text in parts and the number of media.
func size(parts []chat.Part) (bytes, media int) {
	for _, p := range parts {
		switch p := p.(type) {
		case chat.Text:
			bytes += len(p.Text)
		case chat.Reasoning:
			bytes += len(p.Text)
		case chat.Citation:
			bytes += len(p.Data)
		case chat.Native:
			bytes += len(p.Data)
		case chat.ToolCall:
			bytes += len(p.Name) + len(p.Args)
		case chat.ToolResult:
			b, m := size(p.Content)
			bytes, media = bytes+b, media+m
		default:
			media++
		}
	}
	return bytes, media
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
