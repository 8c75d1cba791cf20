package server

import (
	"net/http"

	"github.com/superstep-dev/superstep/server/internal/openapi"
)

// describe describes the server in OpenAPI.
func (s *Server) describe() ([]byte, error) {
	return openapi.JSON(s.version, len(s.authenticators) > 0, s.dialogue != nil)
}

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	data, err := s.description()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(data)
	return err
}
