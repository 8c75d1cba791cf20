package anthropic

import (
	"cmp"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// cacheControl asks the API to keep all up to the end of a block.
type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// point is a [model.CachePoint] in a message.
type point struct {
	parts int
	cache *cacheControl
}

// pointsOf returns the points in messages, by these. Those after the tools are set in w.
func pointsOf(req *model.Request, w *wire) (map[int][]point, error) {
	if n := len(req.Cache); n > model.MaxCachePoints {
		return nil, invalid("Cache has %d points: the API takes %d", n, model.MaxCachePoints)
	}
	points := map[int][]point{}
	for i, p := range req.Cache {
		control := &cacheControl{Type: "ephemeral"}
		switch p.TTL {
		case 0, 5 * time.Minute:
		case time.Hour:
			control.TTL = "1h"
		default:
			return nil, invalid("Cache[%d]: the TTL is %v: the API knows 5m and 1h", i, p.TTL)
		}
		switch {
		case p.Tools && (p.Message != 0 || p.Parts != 0):
			return nil, invalid("Cache[%d] is after the tools and after a message: make it two", i)
		case p.Tools && len(w.Tools) == 0:
			return nil, invalid("Cache[%d] is after the tools, and there are none", i)
		case p.Tools:
			w.Tools[len(w.Tools)-1].Cache = control
		case p.Message < 0 || p.Message >= len(req.Messages):
			return nil, invalid("Cache[%d] is after message %d, and there are %d", i, p.Message, len(req.Messages))
		case p.Parts < 0 || p.Parts > len(req.Messages[p.Message].Parts):
			return nil, invalid("Cache[%d] is after %d parts of message %d, which has %d", i, p.Parts, p.Message, len(req.Messages[p.Message].Parts))
		default:
			points[p.Message] = append(points[p.Message], point{cmp.Or(p.Parts, len(req.Messages[p.Message].Parts)), control})
		}
	}
	return points, nil
}

// piece is a part of a message with what is asked after it.
type piece struct {
	m     chat.Message
	cache *cacheControl
}

// pieces cuts a message where there are points.
func pieces(m chat.Message, points []point) []piece {
	slices.SortStableFunc(points, func(a, b point) int { return a.parts - b.parts })
	var list []piece
	at := 0
	cut := func(to int, cache *cacheControl) {
		for ; to < len(m.Parts); to++ { // what a text cites is a part of its block
			if _, ok := m.Parts[to].(chat.Citation); !ok {
				break
			}
		}
		one := m
		one.Parts = m.Parts[at:to]
		list, at = append(list, piece{one, cache}), to
	}
	for _, p := range points {
		cut(p.parts, p.cache)
	}
	if at < len(m.Parts) || len(list) == 0 {
		cut(len(m.Parts), nil)
	}
	return list
}

// mark puts what is asked on the last block that can have it, of the first of some lists
// or the turns before that has one: the API takes none on what the model thought. Before
// all blocks there is nothing to keep.
func mark(cache *cacheControl, before []turn, lists ...[]block) {
	if cache == nil {
		return
	}
	for _, t := range slices.Backward(before) {
		lists = append(lists, t.Content)
	}
	for _, blocks := range lists {
		for i := range slices.Backward(blocks) {
			b := &blocks[i]
			if b.Type == "thinking" || b.Type == "redacted_thinking" {
				continue
			}
			if b.whole != nil { // a native block is cached with what is around it
				whole, err := vendor.Extend(b.whole, map[string]any{"cache_control": cache}, nil)
				if err != nil {
					continue
				}
				b.whole = whole
				return
			}
			b.Cache = cache
			return
		}
	}
}
