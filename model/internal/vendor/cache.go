package vendor

import (
	"cmp"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// CachePoint is a [model.CachePoint] as vendors that take some know it.
type CachePoint struct {
	TTL   string // "" is the default, five minutes
	parts int
}

// CachePointsOf returns the points of a request: the one after the tools or nil, and those
// in messages by these.
func CachePointsOf(provider string, req *model.Request) (tools *CachePoint, points map[int][]CachePoint, _ error) {
	if n := len(req.Cache); n > model.MaxCachePoints {
		return nil, nil, Invalid(provider, "Cache has %d points: the API takes %d", n, model.MaxCachePoints)
	}
	points = map[int][]CachePoint{}
	for i, p := range req.Cache {
		var at CachePoint
		switch p.TTL {
		case 0, 5 * time.Minute:
		case time.Hour:
			at.TTL = "1h"
		default:
			return nil, nil, Invalid(provider, "Cache[%d]: the TTL is %v: the API knows 5m and 1h", i, p.TTL)
		}
		switch {
		case p.Tools && (p.Message != 0 || p.Parts != 0):
			return nil, nil, Invalid(provider, "Cache[%d] is after the tools and after a message: make it two", i)
		case p.Tools && len(req.Tools) == 0:
			return nil, nil, Invalid(provider, "Cache[%d] is after the tools, and there are none", i)
		case p.Tools:
			tools = &at
		case p.Message < 0 || p.Message >= len(req.Messages):
			return nil, nil, Invalid(provider, "Cache[%d] is after message %d, and there are %d", i, p.Message, len(req.Messages))
		case p.Parts < 0 || p.Parts > len(req.Messages[p.Message].Parts):
			return nil, nil, Invalid(provider, "Cache[%d] is after %d parts of message %d, which has %d", i, p.Parts, p.Message, len(req.Messages[p.Message].Parts))
		default:
			at.parts = cmp.Or(p.Parts, len(req.Messages[p.Message].Parts))
			points[p.Message] = append(points[p.Message], at)
		}
	}
	return tools, points, nil
}

// Piece is a part of a message and the point after it, or nil.
type Piece struct {
	Message chat.Message
	Cache   *CachePoint
}

// Pieces cuts a message where there are points.
func Pieces(m chat.Message, points []CachePoint) []Piece {
	slices.SortStableFunc(points, func(a, b CachePoint) int { return a.parts - b.parts })
	var list []Piece
	at := 0
	cut := func(to int, cache *CachePoint) {
		for ; to < len(m.Parts); to++ { // what a text cites is a part of its block
			if _, ok := m.Parts[to].(chat.Citation); !ok {
				break
			}
		}
		one := m
		one.Parts = m.Parts[at:to]
		list, at = append(list, Piece{one, cache}), to
	}
	for i := range points {
		cut(points[i].parts, &points[i])
	}
	if at < len(m.Parts) || len(list) == 0 {
		cut(len(m.Parts), nil)
	}
	return list
}
