package server

import (
	"net/http"
	"sync"

	"github.com/superstep-dev/superstep/server/internal/openapi"
)

// description describes the server in OpenAPI.
var description = sync.OnceValues(func() ([]byte, error) { return openapi.JSON(moduleVersion()) })

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	data, err := description()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(data)
	return err
}
