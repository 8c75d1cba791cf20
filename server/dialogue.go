package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// Dialogue serves an assistant: as one more graph, and, for those who talk with it, by
// routes of its own.
//
//	POST   /chat                     {"user_id": "u-1", "message": "hi"}: the reply
//	POST   /chat/{user_id}           the same, with the user in the path
//	POST   /chat/{user_id}/stream    what happens in the turn, as server-sent events, and the reply
//	GET    /state/{user_id}          how the conversation stands, with sensitive values masked
//	DELETE /state/{user_id}          forgets it
//	GET    /health /ready /startup /version
//
// Those who watch see its flows drawn, and of each conversation why it went as it did, and
// itself as a test:
//
//	GET    /assistants/{assistant}/flows, /assistants/{assistant}/flows/{flow}
//	GET    /threads/{thread}/turns, /threads/{thread}/test
//
// Each user_id has one conversation. Where there is no [Authorize], every client may speak
// for every user, and actions are told the user_id. Where there is, a client's users are
// its own: another client's conversations with the same user_id are others, and actions are
// told who was authenticated.
//
// A turn goes on when its client leaves. A message that is sent again with the same
// message_id gets the reply that it got, and messages to one conversation wait for each
// other.
//
// The checkpointer of the assistant is not used: the server's store is. A server has one
// dialogue; others are graphs like any, by [Graph].
func Dialogue(a *assistant.Assistant, opts ...GraphOption) Option {
	return func(c *config) {
		if a == nil {
			c.problems = append(c.problems, errors.New("server.Dialogue was given no assistant"))
			return
		}
		if c.dialogue != nil {
			c.problems = append(c.problems, errors.New("server.Dialogue can be given once: serve other assistants as graphs, with server.Graph(a.Graph())"))
			return
		}
		n := len(c.graphs)
		Graph(a.Graph(), opts...)(c)
		if len(c.graphs) > n {
			c.dialogue = &spokenFor{assistant: a, served: c.graphs[n]}
		}
	}
}

// spokenFor is the assistant that the server speaks for.
type spokenFor struct {
	assistant *assistant.Assistant
	served    *served
}

// talking is what a run has that a message to the dialogue started.
type talking struct {
	User string `json:"user,omitempty"` // whom actions are told; empty for who was authenticated
}

// chats is the namespace of the threads of users.
var chats = uuid.MustParse("6b1f5d0e-5f0a-4c3e-9d0d-2f3a86b1a7c4")

// conversations answers those who talk with the dialogue, and those who watch.
type conversations struct {
	*base
	access     *access
	dispatcher *dispatcher
	runs       *runs
	threads    *threads
}

func (s *conversations) routes() []route {
	return []route{
		{"POST /chat", "chat", rule{resource: Chats, verb: CreateRun, how: byHandler, stream: true, json: true}, s.chat},
		{"POST /chat/{user_id}", "chatAs", rule{resource: Chats, verb: CreateRun, how: byHandler, stream: true, json: true}, s.chat},
		{"POST /chat/{user_id}/stream", "streamChat", rule{resource: Chats, verb: CreateRun, how: byHandler, stream: true, json: true}, itself(s.streamChat)},
		{"GET /state/{user_id}", "getConversation", rule{resource: Chats, verb: Read, how: byHandler, json: true}, s.showState},
		{"DELETE /state/{user_id}", "deleteConversation", rule{resource: Chats, verb: Delete, how: byHandler, json: true}, s.forgetState},
		{"GET /health", "health", rule{how: open, json: true}, s.health},
		{"GET /startup", "startup", rule{how: open, json: true}, s.startup},
		{"GET /version", "version", rule{how: open, json: true}, s.showVersion},
		{"GET /assistants/{assistant}/flows", "listFlows", rule{resource: Assistants, verb: Read}, s.listFlows},
		{"GET /assistants/{assistant}/flows/{flow}", "drawFlow", rule{resource: Assistants, verb: Read}, s.showFlow},
		{"GET /threads/{thread}/turns", "listTurns", rule{resource: Threads, verb: Read}, s.showTurns},
		{"GET /threads/{thread}/test", "exportTest", rule{resource: Threads, verb: Read}, itself(s.showTest)},
	}
}

// conversation returns the ID of the thread of a user.
func (s *conversations) conversation(ctx context.Context, user string) (thread string) {
	of := []string{s.dialogue.served.name, user}
	if u := userOf(ctx); u != nil && s.access.authorize != nil {
		of = append(of, u.ID)
	}
	data, _ := json.Marshal(of) // of strings
	return uuid.NewSHA1(chats, data).String()
}

// checkUser refuses what is no user's ID.
func checkUser(id string) error {
	switch {
	case id == "":
		return invalid("user_id is required")
	case len(id) > maxUserID:
		return invalid("user_id is longer than %d bytes", maxUserID)
	case strings.TrimSpace(id) == "":
		return invalid("user_id is blank")
	case strings.ContainsFunc(id, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
		return invalid("user_id must be text without control characters")
	}
	return nil
}

// say starts the run of what a user says to the dialogue.
func (s *conversations) say(r *http.Request, modes ...string) (user string, m dialogue.Message, run *db.Run, err error) {
	if user, m, err = s.chatOf(r); err == nil {
		run, err = s.runOf(r, user, m, modes)
	}
	return user, m, run, err
}

// runOf starts the run of a message.
func (s *conversations) runOf(r *http.Request, user string, m dialogue.Message, modes []string) (*db.Run, error) {
	ctx := r.Context()
	thread := s.conversation(ctx, user)
	input, err := json.Marshal(assistant.Input{Message: m})
	if err != nil {
		return nil, err
	}
	metadata, mine, err := s.access.stamp(ctx, &Action{Resource: Chats, Verb: CreateRun, ID: thread}, object{"user_id": jsonText(user), "graph_id": jsonText(s.dialogue.served.name)})
	if err != nil {
		return nil, err
	}
	if s.dispatcher.stopping() {
		return nil, errLeaving
	}
	g := s.dialogue.served
	a, _, err := s.findAssistant(ctx, assistantOfGraph(g.name))
	if err != nil {
		return nil, err
	}
	b := &runBody{
		AssistantID: a.ID, Input: input, Headers: headersOf(r), Trace: askerOf(r), StreamMode: modes, StreamSubgraphs: true,
		Strategy: enqueue, Talk: &talking{},
	}
	if s.access.authorize == nil { // or else only what was authenticated counts
		b.Talk.User = user
	}
	begin := func() (*db.Run, error) {
		t, err := s.db.Thread(ctx, thread)
		var made *db.Thread
		if errors.Is(err, db.ErrNotFound) {
			made = s.newThread(thread, metadata, false)
			t, err = made, within(mine, made.Metadata)
		}
		if err != nil {
			return nil, err
		}
		if !mine.allows(t.Metadata) {
			return nil, &fault{http.StatusForbidden, "forbidden: the conversation is somebody else's"}
		}
		return s.runs.enqueue(ctx, s.db.AddRun, t, made, a, g, b)
	}
	// Another client may make or remove the thread at the same time.
	for wait := time.Millisecond; ; wait *= 2 {
		run, err := begin()
		if err == nil {
			note(ctx, "thread", thread)
			note(ctx, "run", run.ID)
			return run, nil
		}
		if !errors.Is(err, db.ErrExists) && !isNotFound(err) || wait > time.Second {
			return nil, err
		}
		if !pause(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

func unknownUser(user string) error {
	return notFound("There is no conversation with user_id %.80q", user)
}

// errLeaving is for a message that another server, or the next one, is to be sent.
var errLeaving = &fault{http.StatusServiceUnavailable, "The server is closing. Send the message again, with the same message_id."}

// known returns the thread of a user's conversation, which the client may do something
// with.
func (s *conversations) known(ctx context.Context, verb Verb, user string) (*db.Thread, error) {
	if err := checkUser(user); err != nil {
		return nil, err
	}
	a := &Action{Resource: Chats, Verb: verb, ID: s.conversation(ctx, user)}
	t, err := s.db.Thread(ctx, a.ID)
	if err = s.access.askThread(ctx, a, t, err); isNotFound(err) {
		return nil, unknownUser(user)
	}
	if err != nil {
		return nil, err
	}
	note(ctx, "thread", t.ID)
	return t, nil
}

// talk returns a conversation as it stands.
func (s *conversations) talk(ctx context.Context, thread string) (dialogue.State, error) {
	snap, err := s.dialogue.assistant.Graph().Thread(thread, graph.WithCheckpointer(s.store)).State(ctx)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return dialogue.New(thread), nil
	}
	if err != nil {
		return dialogue.State{}, err
	}
	return snap.State.Dialogue(), nil
}

// answered returns the reply to a message whose run has ended.
func (s *conversations) answered(ctx context.Context, run *db.Run, log *stream, message string) (dialogue.Reply, error) {
	if log != nil && !log.over {
		return dialogue.Reply{}, errLeaving
	}
	run, err := s.db.Run(ctx, run.ID)
	if errors.Is(err, db.ErrNotFound) {
		return dialogue.Reply{}, conflict("The conversation was deleted before the message was answered")
	}
	if err != nil {
		return dialogue.Reply{}, err
	}
	if run.Error != nil {
		return dialogue.Reply{}, s.failedTurn(ctx, run)
	}
	d, err := s.talk(ctx, run.ThreadID)
	if err != nil {
		return dialogue.Reply{}, err
	}
	r, ok := d.Answer(message)
	if !ok {
		return dialogue.Reply{}, conflict("The turn was stopped before the message was answered. It goes on with the next message.")
	}
	// Where the next message was faster, the reply is kept with its sensitive values
	// masked; the run has it as it was said.
	if log != nil && log.outcome != nil {
		var out assistant.Output
		if json.Unmarshal(log.outcome, &out) == nil && out.Reply != nil && out.Reply.Turn == r.Turn {
			return *out.Reply, nil
		}
	}
	return r, nil
}

// failedTurn returns what a client is told of a turn that failed: nothing of the cause,
// which the log has under a reference.
func (s *conversations) failedTurn(ctx context.Context, run *db.Run) error {
	f := &fault{http.StatusInternalServerError, "Something went wrong. The message was received: what it began goes on with the next one."}
	switch {
	case run.Error.Error == "UnderstandingError":
		f = &fault{http.StatusServiceUnavailable, "The message could not be understood just now, and counts as not sent. Please send it again."}
	case run.Status == db.Timeout:
		f = &fault{http.StatusServiceUnavailable, "That took too long. The message was received: what it began goes on with the next one."}
	}
	ref := "ERR-" + strings.ToUpper(uuid.NewString()[:8])
	s.log.LogAttrs(ctx, slog.LevelError, "server: a message could not be answered", slog.String("reference", ref),
		slog.String("run", run.ID), slog.String("thread", run.ThreadID), slog.String("type", run.Error.Error), slog.String("error", run.Error.Message))
	f.text += " Reference: " + ref
	return f
}

// happens says what of a turn begins or ends, by the names that the graph has for it.
func (s *conversations) happens(inside bool, name string) (kind, what string) {
	if !inside {
		return "node", name
	}
	if v, ok := strings.CutPrefix(name, "validate "); ok {
		return "validator", v
	}
	if _, ok := s.dialogue.assistant.Program().Actions[name]; !ok {
		return "model", ""
	}
	return "action", name
}

func (s *conversations) health(w http.ResponseWriter, r *http.Request) (any, error) {
	return map[string]string{"status": "healthy", "version": s.version, "timestamp": now().Format("2006-01-02T15:04:05.000Z")}, nil
}

// startup answers as soon as there is a server to ask.
func (s *conversations) startup(w http.ResponseWriter, r *http.Request) (any, error) {
	return map[string]bool{"started": true}, nil
}

func (s *conversations) showVersion(w http.ResponseWriter, r *http.Request) (any, error) {
	p := s.dialogue.assistant.Program()
	return map[string]any{"version": s.version, "assistant": p.Name, "graph": s.dialogue.served.name}, nil
}
