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
	return &cacheControl{Type: "ephemeral", TTL: p.TTL}
}

// mark asks for it on the last block that can have it: the API takes none on what the
// model thought.
func mark(blocks []block, at *vendor.CachePoint) ([]block, bool) {
	cache := controlOf(at)
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
			return blocks, true
		}
		b.Cache = cache
		return blocks, true
	}
	return blocks, false
}
