package a2a

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/superstep-dev/superstep/client"
)

// Options are settings of a handler. The zero value is fine.
type Options struct {
	// URL is where agents reach the handler, such as https://agents.example.com. Empty:
	// where the request for a card went to, which behind a proxy is right only if that
	// passes on the host and says X-Forwarded-Proto.
	URL string

	// Card, if set, adds to the card of each agent: who provides it, how callers are to
	// authenticate. It must be safe for concurrent use.
	Card func(card *proto.AgentCard)

	// MaxBody bounds a request, in bytes; 0 means 16 MB.
	MaxBody int64

	// Push, if set, sends notifications; the server must be given its Webhooks.
	Push *Push
}

// Handler serves the assistants of a server of LangGraph's protocol as agents:
//
//	/a2a/{assistant}                                the agent, by JSON-RPC
//	/a2a/{assistant}/.well-known/agent-card.json    its card
//	/.well-known/agent-card.json?assistant_id=…     the same
//
// An assistant is named by its ID or its graph's. All other requests are the server's, so
// that the handler stands in its place.
//
// The server, such as one of package server, is asked in its own protocol, with the
// headers of the caller: who may do what, and whose threads there are to be seen, it
// decides as for everybody else. A card takes the same rights as reading the assistant.
func Handler(server http.Handler, o Options) http.Handler {
	h := &handler{server: server, Options: o}
	h.MaxBody = cmp.Or(h.MaxBody, 16<<20)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+a2asrv.WellKnownAgentCardPath, h.wellKnown)
	mux.HandleFunc("GET /a2a/{assistant}"+a2asrv.WellKnownAgentCardPath, func(w http.ResponseWriter, r *http.Request) {
		h.card(w, r, r.PathValue("assistant"))
	})
	mux.HandleFunc("POST /a2a/{assistant}", h.call)
	mux.Handle("/", server)
	return mux
}

type handler struct {
	server http.Handler
	Options
}

// client returns a client that calls the server as the caller.
func (h *handler) client(r *http.Request) (*client.Client, error) {
	return client.New("http://server", client.HTTPClient(&http.Client{Transport: inside{h.server, r}}), client.Reconnects(0))
}

// agent finds the agent that a request is for. If there is none to be seen, that has
// been answered.
func (h *handler) agent(w http.ResponseWriter, r *http.Request, assistant string) *agent {
	c, err := h.client(r)
	var a *client.Assistant
	if err == nil {
		a, err = c.Assistant(r.Context(), assistant)
	}
	if err == nil {
		return &agent{client: c, assistant: a, push: h.Push}
	}
	status, text := http.StatusBadGateway, "the server does not answer"
	var refused *client.Error
	if errors.As(err, &refused) {
		status, text = refused.Status, refused.Message
	}
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(int(refused.RetryAfter/time.Second)))
	}
	http.Error(w, text, status)
	return nil
}

// wellKnown serves the card of the assistant that is named, or of the only one.
func (h *handler) wellKnown(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("assistant_id")
	if id == "" {
		c, err := h.client(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		var ids []string
		for a, err := range c.Assistants(r.Context(), client.AssistantSearch{Limit: 2}) {
			if err != nil {
				break // the card says it better
			}
			ids = append(ids, a.ID)
		}
		if len(ids) != 1 {
			http.Error(w, "say whose card: "+a2asrv.WellKnownAgentCardPath+"?assistant_id=ID", http.StatusBadRequest)
			return
		}
		id = ids[0]
	}
	h.card(w, r, id)
}

func (h *handler) card(w http.ResponseWriter, r *http.Request, assistant string) {
	a := h.agent(w, r, assistant)
	if a == nil {
		return
	}
	base := strings.TrimSuffix(h.URL, "/")
	if base == "" {
		base = "http://" + r.Host
		if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
			base = "https://" + r.Host
		}
	}
	modes := []string{"text/plain", "application/json"}
	description := cmp.Or(a.assistant.Description, "Runs the graph "+a.assistant.GraphID+".")
	name := cmp.Or(a.assistant.Name, a.assistant.GraphID)
	card := &proto.AgentCard{
		Name: name, Description: description, Version: strconv.Itoa(a.assistant.Version),
		SupportedInterfaces: []*proto.AgentInterface{{URL: base + "/a2a/" + url.PathEscape(a.assistant.ID), ProtocolBinding: proto.TransportProtocolJSONRPC, ProtocolVersion: proto.Version}},
		Capabilities:        proto.AgentCapabilities{Streaming: true, PushNotifications: h.Push != nil},
		DefaultInputModes:   modes, DefaultOutputModes: modes,
		Skills: []proto.AgentSkill{{ID: a.assistant.GraphID, Name: name, Description: description, Tags: []string{"graph"}}},
	}
	if h.Card != nil {
		h.Card(card)
	}
	a2asrv.NewStaticAgentCardHandler(card).ServeHTTP(w, r)
}

// call answers a request of the protocol.
func (h *handler) call(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > h.MaxBody {
		http.Error(w, fmt.Sprintf("body is larger than %d bytes", h.MaxBody), http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, h.MaxBody)
	a := h.agent(w, r, r.PathValue("assistant"))
	if a == nil {
		return
	}
	data, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, fmt.Sprintf("body is larger than %d bytes", h.MaxBody), http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		return // the caller has gone
	}
	// A request without a version is one of 0.3, as the standard has it.
	version := cmp.Or(r.Header.Get(proto.SvcParamVersion), r.URL.Query().Get(proto.SvcParamVersion), "0.3")
	var call struct {
		ID any `json:"id"`
	}
	if json.Unmarshal(data, &call) == nil && version != string(proto.Version) && !strings.HasPrefix(version, string(proto.Version)+".") {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "error": map[string]any{ // a caller that has gone needs no error
			"code": -32009, "message": fmt.Sprintf("version %.20q of the protocol is not spoken here: send the header %s: %s", version, proto.SvcParamVersion, proto.Version),
		}})
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	a2asrv.NewJSONRPCHandler(a, a2asrv.WithTransportKeepAlive(15*time.Second)).ServeHTTP(w, r)
}
