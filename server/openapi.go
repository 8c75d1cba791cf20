package server

import (
	"net/http"
	"sync"

	"github.com/superstep-dev/superstep/server/internal/openapi"
)

// descriptions describe the server in OpenAPI, by whether it asks for credentials.
var descriptions = map[bool]func() ([]byte, error){
	false: sync.OnceValues(func() ([]byte, error) { return openapi.JSON(moduleVersion(), false) }),
	true:  sync.OnceValues(func() ([]byte, error) { return openapi.JSON(moduleVersion(), true) }),
}

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	data, err := descriptions[len(s.authenticators) > 0]()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(data)
	return err
}
