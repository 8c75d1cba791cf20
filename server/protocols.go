package server

import (
	"net/http"

	"github.com/superstep-dev/superstep/server/internal/agui"
	"github.com/superstep-dev/superstep/server/internal/openaiapi"
)

// protocolTable is what it answers for programs that speak other protocols.
func (s *Server) protocolTable() map[string]func(http.ResponseWriter, *http.Request) error {
	openAI := openaiapi.API{Server: turns{s}}
	return map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/models":            openAI.Models,
		"GET /v1/models/{model}":    openAI.Model,
		"POST /v1/chat/completions": openAI.Chat,
		"POST /v1/responses":        openAI.Responses,

		"POST /assistants/{assistant}/agui": agui.Agents{Server: turns{s}}.Run,
	}
}
