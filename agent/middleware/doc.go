// Package middleware has middleware for agents: limits, retries, checks, redaction, and what
// keeps a long turn within what a model can take. Each function returns an
// [agent.Middleware] for the list [agent.ReAct.Use]:
//
//	agent.New(agent.ReAct[agent.State]{
//		Model: model,
//		Tools: tools,
//		Use: []agent.Middleware[agent.State]{
//			middleware.Redact[agent.State](middleware.Redaction{Kinds: []middleware.Kind{middleware.Email}}),
//			middleware.LimitModel[agent.State](middleware.Limit{PerTurn: 20}),
//			middleware.RetryTools[agent.State](middleware.Retry{}),
//		},
//	})
//
// Other models in the place of one that fails are [model.Fallback]; a summary of what was
// said is [agent.Summary]; a person's consent to calls of tools is [agent.Approval].
package middleware
