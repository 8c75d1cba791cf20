package middleware

import (
	"context"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// Caching says how long a provider keeps what it has read.
type Caching struct {
	TTL time.Duration // since it was used last; 0 means what [model.CachePoint] says
}

// CachePrompt asks the provider to keep what requests begin with: the tools, the
// instruction, the conversation up to the user's last message, and all of it, for the
// next round with tools. Points that are in [model.Request.Cache] already stay; there are
// at most [model.MaxCachePoints]. Give it last, as it counts the messages that are sent. A
// provider that isn't told what to keep ignores it; the agent's usage says what it saved.
func CachePrompt[S any](c Caching) agent.Middleware[S] {
	return agent.OnRequest("cache_prompt", func(_ context.Context, _ *S, req *model.Request) error {
		role := func(r chat.Role) func(chat.Message) bool {
			return func(m chat.Message) bool { return m.Role == r }
		}
		// The first of the system's messages is the instruction; others, such as a list of
		// what is to be done, may change, and what stands before them is the same.
		instruction := slices.IndexFunc(req.Messages, role(chat.RoleSystem))
		turn := len(req.Messages) - 1
		for turn >= 0 && req.Messages[turn].Role != chat.RoleUser {
			turn--
		}
		before := turn - 1
		for before >= 0 && req.Messages[before].Role == chat.RoleSystem {
			before--
		}
		points := slices.Clone(req.Cache)
		add := func(at model.CachePoint) {
			at.TTL = c.TTL
			same := func(p model.CachePoint) bool {
				return p.Tools == at.Tools && p.Message == at.Message && p.Parts == 0
			}
			if len(points) < model.MaxCachePoints && !slices.ContainsFunc(points, same) {
				points = append(points, at)
			}
		}
		// What saves the most comes first.
		if last := len(req.Messages) - 1; last >= 0 {
			add(model.CachePoint{Message: last})
		}
		if instruction >= 0 {
			add(model.CachePoint{Message: instruction})
		}
		if len(req.Tools) > 0 {
			add(model.CachePoint{Tools: true})
		}
		if before >= 0 {
			add(model.CachePoint{Message: before})
		}
		req.Cache = points
		return nil
	})
}
