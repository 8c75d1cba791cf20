package anthropic

import (
	"slices"

	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// cacheControl asks the API to keep all up to the end of a block.
type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// controlOf is what a point asks.
func controlOf(p *vendor.CachePoint) *cacheControl {
	if p == nil {
		return nil
	}
	return &cacheControl{Type: "ephemeral", TTL: p.TTL}
}

// mark puts what is asked on the last block that can have it, of the first of some lists
// or the turns before that has one: the API takes none on what the model thought. Before
// all blocks there is nothing to keep.
func mark(at *vendor.CachePoint, before []turn, lists ...[]block) {
	cache := controlOf(at)
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
