package server

import (
	"github.com/superstep-dev/superstep/server/internal/agui"
	"github.com/superstep-dev/superstep/server/internal/openaiapi"
)

// protocols are the routes for programs that speak other protocols.
func protocols(t turns) []route {
	openAI := openaiapi.API{Server: t}
	return []route{
		{"GET /v1/models", "listModels", rule{resource: Assistants, verb: Search, how: byHandler, refuse: openaiapi.Refuse}, openAI.Models},
		{"GET /v1/models/{model}", "getModel", rule{resource: Assistants, verb: Read, how: byHandler, refuse: openaiapi.Refuse}, openAI.Model},
		{"POST /v1/chat/completions", "completeChat", rule{resource: Runs, verb: CreateRun, how: byHandler, stream: true, refuse: openaiapi.Refuse}, openAI.Chat},
		{"POST /v1/responses", "createResponse", rule{resource: Runs, verb: CreateRun, how: byHandler, stream: true, refuse: openaiapi.Refuse}, openAI.Responses},
		{"POST /mcp", "serveMCP", rule{resource: Runs, verb: CreateRun, how: byHandler, stream: true}, itself(t.serveMCP)},
		{"POST /assistants/{assistant}/agui", "runAGUI", rule{resource: Runs, verb: CreateRun, how: byHandler, stream: true, refuse: agui.Refuse}, itself(agui.Agents{Server: t}.Run)},
	}
}
