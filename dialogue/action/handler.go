package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Handler serves a set to other processes, which take it with [HTTP]. It answers at
// whatever path it is mounted: a GET with what the set has, a POST with what came of one
// attempt. Who may call is for a handler around this one to say.
func Handler(s *Set) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			s.list(w)
		case http.MethodPost:
			s.serve(w, r)
		default:
			w.Header().Set("Allow", "GET, HEAD, POST")
			refuse(w, http.StatusMethodNotAllowed, "invalid", "the method is GET or POST")
		}
	})
}

func (s *Set) list(w http.ResponseWriter) {
	l := listing{Actions: map[string]contract{}, Validators: map[string]program.Type{}}
	for name, a := range s.actions {
		l.Actions[name] = contractOf(a.signature)
	}
	for name, v := range s.validators {
		l.Validators[name] = v.takes
	}
	write(w, http.StatusOK, l)
}

func (s *Set) serve(w http.ResponseWriter, r *http.Request) {
	// Browsers send other types to any site, without asking it first.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "invalid", "the Content-Type has to be application/json")
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		refuse(w, http.StatusRequestEntityTooLarge, "invalid", fmt.Sprintf("the request has more than %d bytes", maxBody))
		return
	}
	var q request
	if err != nil || json.Unmarshal(data, &q) != nil {
		refuse(w, http.StatusBadRequest, "invalid", "the request is no JSON object of this call")
		return
	}
	ctx := WithCaller(r.Context(), Caller{User: q.User, Thread: q.Thread, Language: q.Language})
	switch {
	case (q.Action == "") == (q.Validator == ""):
		refuse(w, http.StatusBadRequest, "invalid", "name an action or a validator")
	case q.Validator != "":
		if s.validators[q.Validator] == nil {
			refuse(w, http.StatusNotFound, "action_not_found", "there is no validator of this name")
			return
		}
		v := s.Validate(ctx, dialogue.Validation{ID: q.Key, Validator: q.Validator, Slot: q.Slot, Value: q.Value, Language: q.Language})
		switch {
		case v.Error != nil:
			fail(w, v.Error)
		case v.Reason != "":
			write(w, http.StatusOK, answer{Refused: &v.Reason})
		default:
			write(w, http.StatusOK, map[string]any{"value": v.Value})
		}
	case s.actions[q.Action] == nil:
		refuse(w, http.StatusNotFound, "action_not_found", "there is no action of this name")
	case q.Key == "":
		refuse(w, http.StatusBadRequest, "invalid", "the key is missing; it is the same for all attempts at one call")
	case q.Timeout < 0 || q.Timeout > math.MaxInt64/float64(time.Second):
		refuse(w, http.StatusBadRequest, "invalid", "the timeout is no number of seconds")
	default:
		res := s.Do(ctx, dialogue.ActionCall{
			ID: q.Key, Action: q.Action, Effect: q.Effect, Inputs: q.Inputs, FlowID: q.Flow, Step: q.Step,
			Timeout: time.Duration(q.Timeout * float64(time.Second)),
		})
		if res.Error != nil {
			fail(w, res.Error)
			return
		}
		write(w, http.StatusOK, map[string]any{"outputs": res.Outputs})
	}
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	write(w, status, answer{Error: &wireError{kind, message}})
}

// fail answers with what an action told: the call itself went well.
func fail(w http.ResponseWriter, f *dialogue.Failure) {
	refuse(w, http.StatusOK, f.Type, f.Message)
}

func write(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":{"type":"unknown"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // who is gone gets nothing
}
