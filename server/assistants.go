package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// object is a JSON object of which only some members are of interest.
type object map[string]json.RawMessage

// raw returns the object as JSON; nil is {}.
func (o object) raw() json.RawMessage {
	if o == nil {
		return json.RawMessage("{}")
	}
	data, _ := json.Marshal(o) // of JSON
	return data
}

// with returns the object with the members of others, which win.
func (o object) with(others ...object) object {
	out := object{}
	maps.Copy(out, o)
	for _, other := range others {
		maps.Copy(out, other)
	}
	return out
}

// objectOf reads an object that the server itself stored.
func objectOf(data json.RawMessage) object {
	o := object{}
	_ = json.Unmarshal(data, &o)
	return o
}

func textOf(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

func jsonText(s string) json.RawMessage {
	data, _ := json.Marshal(s) // cannot fail
	return data
}

// ofGraphs is the namespace in which LangGraph's servers name the assistants of
// graphs: programs that hold such an ID find the same graph here.
var ofGraphs = uuid.MustParse("6ba7b821-9dad-11d1-80b4-00c04fd430c8")

// assistantOfGraph is the ID of the assistant that each graph has.
func assistantOfGraph(name string) string {
	return uuid.NewSHA1(ofGraphs, []byte(name)).String()
}

// assistants answers what is asked of graphs and their configurations.
type assistants struct {
	*base
	access     *access
	dispatcher *dispatcher
	threads    *threads
}

func (s *assistants) routes() []route {
	return []route{
		{"POST /assistants", "createAssistant", rule{resource: Assistants, verb: Create, how: byHandler}, given(s.createAssistant)},
		{"POST /assistants/search", "searchAssistants", rule{resource: Assistants, verb: Search, how: byHandler}, listing(s.findAssistants)},
		{"POST /assistants/count", "countAssistants", rule{resource: Assistants, verb: Search, how: byHandler}, counting(s.findAssistants)},
		{"GET /assistants/{assistant}", "getAssistant", rule{resource: Assistants, verb: Read}, s.onAssistant(s.getAssistant)},
		{"PATCH /assistants/{assistant}", "patchAssistant", rule{resource: Assistants, verb: Update, how: byHandler}, given(s.patchAssistant)},
		{"DELETE /assistants/{assistant}", "deleteAssistant", rule{resource: Assistants, verb: Delete}, s.onAssistant(s.deleteAssistant)},
		{"GET /assistants/{assistant}/graph", "getGraph", rule{resource: Assistants, verb: Read}, s.onAssistant(s.assistantGraph)},
		{"GET /assistants/{assistant}/schemas", "getSchemas", rule{resource: Assistants, verb: Read}, s.onAssistant(s.assistantSchemas)},
		{"POST /assistants/{assistant}/versions", "listVersions", rule{resource: Assistants, verb: Read}, given(s.assistantVersions)},
		{"POST /assistants/{assistant}/latest", "setLatest", rule{resource: Assistants, verb: Update}, given(s.assistantLatest)},
		{"GET /assistants/{assistant}/subgraphs", "getSubgraphs", rule{resource: Assistants, verb: Read}, s.onAssistant(s.assistantSubgraphs)},
		{"GET /assistants/{assistant}/subgraphs/{namespace}", "getSubgraph", rule{resource: Assistants, verb: Read}, s.onAssistant(s.assistantSubgraphs)},
	}
}

func (s *assistants) systemAssistants(ctx context.Context) error {
	for _, name := range s.names {
		id := assistantOfGraph(name)
		version := int64(1)
		switch old, err := s.db.Assistant(ctx, id); {
		case errors.Is(err, db.ErrNotFound):
		case err != nil:
			return err
		case old.GraphID == name:
			continue
		default: // a client has taken the ID before the graph was there
			if version, err = s.db.NewestVersion(ctx, id); err != nil {
				return err
			}
			version++
		}
		var about *string
		if d := s.graphs[name].description; d != "" {
			about = &d
		}
		at := now()
		err := s.db.PutAssistant(ctx, &db.Assistant{
			ID: id, GraphID: name, Config: object(nil).raw(), Context: object(nil).raw(), Metadata: object{createdBy: jsonText(system)}.raw(),
			CreatedAt: at, UpdatedAt: at, Version: version, Name: name, Description: about,
		})
		if err != nil && !errors.Is(err, db.ErrExists) { // another instance was first
			return err
		}
	}
	return nil
}

// What the metadata of the graphs' own assistants say.
const createdBy, system = "created_by", "system"

const noAssistant = "Assistant not found"

// assistant finds an assistant by its ID or that of its graph.
func (s *base) findAssistant(ctx context.Context, id string) (*db.Assistant, *served, error) {
	if id == "" {
		return nil, nil, invalid("assistant_id is required")
	}
	if _, ok := s.graphs[id]; ok {
		id = assistantOfGraph(id)
	} else if _, err := checkID("assistant", id); err != nil {
		return nil, nil, notFound(noAssistant)
	}
	a, err := s.db.Assistant(ctx, id)
	if err != nil {
		return nil, nil, missing(err, noAssistant)
	}
	g := s.graphs[a.GraphID]
	if g == nil {
		return nil, nil, notFound("Graph %q of assistant %s is not served any more", a.GraphID, a.ID)
	}
	return a, g, nil
}

type assistantBody struct {
	AssistantID string  `json:"assistant_id"`
	GraphID     *string `json:"graph_id"`
	Config      object  `json:"config"`
	Context     object  `json:"context"`
	Metadata    object  `json:"metadata"`
	IfExists    string  `json:"if_exists"`
	Name        *string `json:"name"`
	Description *string `json:"description"`
}

func (s *assistants) createAssistant(w http.ResponseWriter, r *http.Request, b *assistantBody) (any, error) {
	if b.GraphID == nil {
		return nil, invalid("graph_id is required")
	}
	if s.graphs[*b.GraphID] == nil {
		return nil, notFound("Graph %q not found: there are %s", *b.GraphID, strings.Join(s.names, ", "))
	}
	id, err := checkID("assistant", cmp.Or(b.AssistantID, uuid.NewString()))
	if err != nil {
		return nil, err
	}
	if err = errors.Join(oneOf("if_exists", b.IfExists, "raise", "do_nothing"), s.checkAssistant(b)); err == nil {
		err = b.fits(w, r, s.graphs[*b.GraphID])
	}
	if err != nil {
		return nil, err
	}
	var mine Filter
	if b.Metadata, mine, err = s.access.stampNew(r.Context(), &Action{Resource: Assistants, Verb: Create, ID: id}, b.Metadata); err != nil {
		return nil, err
	}
	at := now()
	a := &db.Assistant{
		ID: id, GraphID: *b.GraphID, Config: b.Config.raw(), Context: b.Context.raw(), Metadata: b.Metadata.raw(),
		CreatedAt: at, UpdatedAt: at, Version: 1, Name: "Untitled", Description: b.Description,
	}
	if b.Name != nil {
		a.Name = *b.Name
	}
	err = s.db.PutAssistant(r.Context(), a)
	if errors.Is(err, db.ErrExists) {
		if b.IfExists != "do_nothing" {
			return nil, conflict("Assistant already exists")
		}
		if a, err = s.db.Assistant(r.Context(), id); err == nil && !seesAssistant(mine, Read, a) {
			return nil, conflict("Assistant already exists")
		}
	}
	if err != nil {
		return nil, err
	}
	note(r.Context(), "assistant", a.ID)
	return s.assistantView(a), nil
}

// checkAssistant reports what is wrong with what a client says of an assistant.
func (s *assistants) checkAssistant(b *assistantBody) error {
	if b.Name != nil {
		if err := checkName("name", *b.Name); err != nil {
			return err
		}
	}
	if b.Description != nil && over(len(*b.Description), s.limits.Metadata) {
		return invalid("description is longer than %d bytes", s.limits.Metadata)
	}
	var c runConfig
	if err := decode(b.Config.raw(), &c); err != nil {
		if f, ok := errors.AsType[*fault](err); ok {
			return &fault{f.status, "config: " + f.text}
		}
		return err
	}
	return s.checkMetadata(b.Metadata)
}

// fits reports what is wrong with an assistant's configuration of a graph. What the graph
// doesn't know stays in the assistant, as LangGraph's server keeps it, and out of its runs.
func (b *assistantBody) fits(w http.ResponseWriter, r *http.Request, g *served) error {
	if g == nil {
		return nil
	}
	configurable, context := objectOf(b.Config["configurable"]), b.Context
	if !strict(r) {
		config, err := g.config()
		if err != nil {
			return err
		}
		var left leftOut
		configurable = config.known("config.configurable", configurable, &left)
		context = config.known("context", context, &left)
		warned(w, left)
	}
	return checkConfig(g, configurable, context)
}

// assistantShown is an assistant as clients see it.
type assistantShown struct {
	*db.Assistant
	CreatedAt instant `json:"created_at"`
	UpdatedAt instant `json:"updated_at"`
}

// assistantView shows an assistant; a graph's own with the configuration that the graph has
// by default.
func (s *assistants) assistantView(a *db.Assistant) assistantShown {
	shown := assistantShown{a, instant(a.CreatedAt), instant(a.UpdatedAt)}
	if g := s.graphs[a.GraphID]; g != nil && a.ID == assistantOfGraph(a.GraphID) && len(objectOf(a.Config)) == 0 {
		if config, err := g.config(); err == nil && config != nil {
			if defaults := config.defaults(); len(defaults) > 0 {
				copied := *a
				copied.Config = object{"configurable": defaults.raw()}.raw()
				shown.Assistant = &copied
			}
		}
	}
	return shown
}

func (s *assistants) getAssistant(w http.ResponseWriter, r *http.Request, a *db.Assistant, _ *served) (any, error) {
	return s.assistantView(a), nil
}

// Every patch, even an empty one, makes a version.
func (s *assistants) patchAssistant(w http.ResponseWriter, r *http.Request, b *assistantBody) (any, error) {
	a, _, err := s.findAssistant(r.Context(), r.PathValue("assistant"))
	if err != nil {
		return nil, err
	}
	if err := s.checkAssistant(b); err != nil {
		return nil, err
	}
	var mine Filter
	if b.Metadata, mine, err = s.access.stamp(r.Context(), &Action{Resource: Assistants, Verb: Update, ID: a.ID}, b.Metadata); err != nil {
		return nil, err
	}
	if !seesAssistant(mine, Update, a) {
		return nil, notFound(noAssistant)
	}
	if b.GraphID != nil {
		if s.graphs[*b.GraphID] == nil {
			return nil, notFound("Graph %q not found", *b.GraphID)
		}
		a.GraphID = *b.GraphID
	}
	if err := b.fits(w, r, s.graphs[a.GraphID]); err != nil {
		return nil, err
	}
	if b.Config != nil {
		a.Config = b.Config.raw()
	}
	if b.Context != nil {
		a.Context = b.Context.raw()
	}
	if b.Metadata != nil {
		merged := objectOf(a.Metadata).with(b.Metadata)
		a.Metadata = merged.raw()
		if err := errors.Join(s.checkMetadata(merged), within(mine, a.Metadata)); err != nil {
			return nil, err
		}
	}
	if b.Name != nil {
		a.Name = *b.Name
	}
	if b.Description != nil {
		a.Description = b.Description
	}
	a.UpdatedAt = now()
	for {
		newest, err := s.db.NewestVersion(r.Context(), a.ID)
		if err != nil {
			return nil, err
		}
		a.Version = newest + 1
		if err = s.db.PutAssistant(r.Context(), a); !errors.Is(err, db.ErrExists) { // or else somebody patched it just now
			return s.assistantView(a), err
		}
	}
}

func (s *assistants) deleteAssistant(w http.ResponseWriter, r *http.Request, a *db.Assistant, _ *served) (any, error) {
	threads, err := flag(r, "delete_threads")
	if err != nil {
		return nil, err
	}
	for _, name := range s.names {
		if a.ID == assistantOfGraph(name) {
			return nil, conflict("Assistant %s belongs to graph %q: it is there as long as the graph is", a.ID, name)
		}
	}
	runs, err := s.db.RunsOfAssistant(r.Context(), a.ID)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		if err := s.dispatcher.remove(r.Context(), run); err != nil {
			return nil, err
		}
	}
	if threads {
		found, _, err := s.db.Threads(r.Context(), db.ThreadFilter{Assistant: a.ID}, "created", db.Page{Limit: 1 << 30}, nil)
		if err != nil {
			return nil, err
		}
		mine, err := s.access.ask(r.Context(), &Action{Resource: Threads, Verb: Delete})
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			if !mine.allows(t.Metadata) {
				continue
			}
			if err := unlessGone(s.threads.removeThread(r.Context(), t.ID)); err != nil {
				return nil, err
			}
		}
	}
	return []string{a.ID}, unlessGone(s.db.DeleteAssistant(r.Context(), a.ID))
}

type assistantSearch struct {
	searching
	GraphID string `json:"graph_id"`
	Name    string `json:"name"`
}

func (s *assistants) findAssistants(r *http.Request, q *assistantSearch) (*found, error) {
	p, by, err := s.checkSearch(&q.searching, assistantMembers, "assistant_id", "graph_id", "name", "created_at", "updated_at")
	if err = errors.Join(err, checkName("graph_id", q.GraphID)); err != nil {
		return nil, err
	}
	mine, err := s.access.ask(r.Context(), &Action{Resource: Assistants, Verb: Search})
	if err != nil {
		return nil, err
	}
	b := s.budget(r)
	match, name := matching(q.Metadata, b), strings.ToLower(q.Name)
	as := Search
	if textOf(q.Metadata[createdBy]) == system { // who asks for the graphs' own sees them
		as = Read
	}
	list, total, err := s.db.Assistants(b.ctx, q.GraphID, by, p, func(a *db.Assistant) bool {
		return s.graphs[a.GraphID] != nil && seesAssistant(mine, as, a) && strings.Contains(strings.ToLower(a.Name), name) && match(a.Metadata)
	})
	return &found{p, len(list), total, func() (any, error) { return selected(views(list, s.assistantView), q.Select) }}, b.or(err)
}

// jsonNames returns the names of what T has in JSON.
func jsonNames[T any]() (names []string) {
	for field := range reflect.TypeFor[T]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// checkSelect reports members that are to be shown and that aren't known.
func checkSelect(members, known []string) error {
	for _, m := range members {
		if !slices.Contains(known, m) {
			return invalid("select: there is no %.80q; there are %s", m, strings.Join(known, ", "))
		}
	}
	return nil
}

// Members that clients may ask for. The last ones of threads and crons are those
// that only LangGraph's servers have.
var (
	assistantMembers = jsonNames[db.Assistant]()
	threadMembers    = append(jsonNames[threadView](), "context")
	runMembers       = jsonNames[runShown]()
	foundMembers     = slices.Concat(runMembers, jsonNames[runFound]())
	cronMembers      = append(slices.DeleteFunc(jsonNames[db.Cron](), func(m string) bool { return m == "user" }), "now")
)

// selected returns a list of objects of which only some members are shown; none means
// all.
func selected[T any](list []T, members []string) (any, error) {
	if len(members) == 0 {
		return list, nil
	}
	out := make([]object, len(list))
	for i, v := range list {
		data, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		whole := objectOf(data)
		out[i] = object{}
		for _, m := range members {
			value, ok := whole[m]
			if !ok {
				value = json.RawMessage("null")
			}
			out[i][m] = value
		}
	}
	return out, nil
}

type versionSearch struct {
	paging
	Metadata object `json:"metadata"`
}

func (s *assistants) assistantVersions(w http.ResponseWriter, r *http.Request, q *versionSearch) (any, error) {
	p, err := q.page(10)
	if err != nil {
		return nil, err
	}
	a, _, err := s.findAssistant(r.Context(), r.PathValue("assistant"))
	if err != nil {
		return nil, err
	}
	b := s.budget(r)
	match := matching(q.Metadata, b)
	list, err := s.db.Versions(b.ctx, a.ID, p, func(a *db.Assistant) bool { return match(a.Metadata) })
	return views(list, s.assistantView), b.or(err)
}

type latestBody struct {
	Version int64 `json:"version"`
}

func (s *assistants) assistantLatest(w http.ResponseWriter, r *http.Request, q *latestBody) (any, error) {
	a, _, err := s.findAssistant(r.Context(), r.PathValue("assistant"))
	if err != nil {
		return nil, err
	}
	if a, err = s.db.SetLatest(r.Context(), a.ID, q.Version, now()); err != nil {
		return nil, missing(err, "Assistant version not found")
	}
	return s.assistantView(a), nil
}

func (s *assistants) assistantGraph(w http.ResponseWriter, r *http.Request, _ *db.Assistant, g *served) (any, error) {
	var err error
	depth := 0
	switch v := r.URL.Query().Get("xray"); v {
	case "", "false", "0":
	case "true":
		depth = 1 << 10
	default:
		if depth, err = strconv.Atoi(v); err != nil || depth < 0 {
			return nil, invalid("xray must be true, false or a number of levels, not %.80q", v)
		}
	}
	query := r.URL.Query()
	d := g.Drawing(depth)
	if query.Has("open") {
		open := []string{}
		if json.Unmarshal([]byte(query.Get("open")), &open) != nil {
			return nil, invalid("open must be a list of the paths of subgraphs, such as [\"a\",\"a|b\"]")
		}
		d = g.Drawing(1 << 10)
		closeAllBut(d, open, "")
	}
	return laidOut(r, d)
}

// closeAllBut closes the subgraphs of a drawing, those aside whose paths, as
// assistantSubgraphs gives them, are listed.
func closeAllBut(d *draw.Graph, open []string, path string) {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Sub == nil {
			continue
		}
		if !slices.Contains(open, path+n.ID) {
			n.Sub = nil
			continue
		}
		closeAllBut(n.Sub, open, path+n.ID+"|")
	}
}

type drawnNode struct {
	ID   string         `json:"id"`
	Type string         `json:"type"`
	Data map[string]any `json:"data"`

	Metadata map[string]any `json:"metadata,omitempty"`
}

type drawnEdge struct {
	Source      string `json:"source"`
	Target      string `json:"target"`
	Conditional bool   `json:"conditional,omitempty"`
	Data        string `json:"data,omitempty"` // the edge's label
}

// drawn is a graph as clients draw it. Our own studio also asks for places, with
// the query parameter layout.
type drawn struct {
	Nodes  []drawnNode  `json:"nodes"`
	Edges  []drawnEdge  `json:"edges"`
	Layout *draw.Layout `json:"layout,omitempty"`
}

// drawingOf is the form in which clients draw graphs. The nodes of a subgraph
// that is opened stand in its place, their IDs after its own and a colon.
func drawingOf(d *draw.Graph) drawn {
	out := drawn{Nodes: []drawnNode{}, Edges: []drawnEdge{}}
	out.add(d, "")
	return out
}

// ends are where edges that lead to or from a node are drawn to.
type ends struct{ in, out []string }

// add draws a graph. It returns, for one below the root, where its first edges
// lead and its last ones come from: also the nodes that no edge leaves, and, where
// only a router knows the first ones, those that no edge leads to.
func (out *drawn) add(d *draw.Graph, prefix string) ends {
	at := map[string]ends{}
	border := func(id string) { // the start or the end, which only the root shows
		if prefix == "" {
			out.Nodes = append(out.Nodes, drawnNode{ID: id, Type: "schema", Data: map[string]any{"id": id, "name": id}})
			at[id] = ends{[]string{id}, []string{id}}
		}
	}
	border(draw.StartID)
	for _, n := range d.Nodes {
		id := prefix + n.ID
		switch {
		case n.ID == draw.StartID || n.ID == draw.EndID:
		case n.Sub != nil:
			at[n.ID] = out.add(n.Sub, id+":")
		default:
			data := map[string]any{"id": []string{"superstep", "node", n.ID}, "name": n.ID}
			if n.Label != "" {
				data["name"] = n.Label
			}
			if n.Description != "" {
				data["description"] = n.Description
			}
			one := drawnNode{ID: id, Type: "runnable", Data: data}
			if n.Tags != nil {
				one.Metadata = map[string]any{"tags": n.Tags}
			}
			out.Nodes = append(out.Nodes, one)
			at[n.ID] = ends{[]string{id}, []string{id}}
		}
	}
	border(draw.EndID)
	var whole ends
	for _, n := range d.Nodes {
		if !slices.ContainsFunc(d.Edges, func(e draw.Edge) bool { return e.From == n.ID && e.To != n.ID }) {
			whole.out = append(whole.out, at[n.ID].out...)
		}
	}
	for _, e := range d.Edges {
		from, to := at[e.From], at[e.To]
		if e.From == draw.StartID {
			whole.in = append(whole.in, to.in...)
		}
		if e.To == draw.EndID {
			whole.out = append(whole.out, from.out...)
		}
		for _, source := range from.out {
			for _, target := range to.in {
				one := drawnEdge{Source: source, Target: target, Conditional: e.Kind == draw.EdgeConditional || e.Kind == draw.EdgeDynamic}
				if e.Label != "" && e.Label != e.To {
					one.Data = e.Label
				}
				if !slices.Contains(out.Edges, one) {
					out.Edges = append(out.Edges, one)
				}
			}
		}
	}
	if whole.in == nil {
		for _, n := range d.Nodes {
			if !slices.ContainsFunc(d.Edges, func(e draw.Edge) bool { return e.To == n.ID && e.From != n.ID }) {
				whole.in = append(whole.in, at[n.ID].in...)
			}
		}
	}
	return whole
}

func (s *assistants) assistantSchemas(w http.ResponseWriter, r *http.Request, _ *db.Assistant, g *served) (any, error) {
	schemas, err := schemasOf(g)
	if err != nil {
		return nil, err
	}
	schemas["graph_id"] = jsonText(g.name)
	return schemas, nil
}

// schemer is a graph that describes itself.
type schemer interface {
	JSONSchema(graph.JSONKind) (json.RawMessage, error)
}

// schemasOf describes what a graph takes, gives and keeps in JSON Schema.
func schemasOf(g schemer) (object, error) {
	config, err := shapeOf(g, graph.JSONConfig)
	if err != nil {
		return nil, err
	}
	out := object{"config_schema": config.published(), "context_schema": config.published()}
	for name, schema := range out {
		out[name] = draft07(schema)
	}
	for name, kind := range map[string]graph.JSONKind{"input_schema": graph.JSONInput, "output_schema": graph.JSONOutput, "state_schema": graph.JSONState} {
		schema, err := g.JSONSchema(kind)
		if err != nil {
			return nil, err
		}
		out[name] = draft07(schema)
	}
	return out, nil
}

// draft07 says of a schema by which draft LangGraph's clients may read it: it has no
// keywords that mean something else in newer ones.
func draft07(schema json.RawMessage) json.RawMessage {
	o := objectOf(schema)
	if o == nil || o["$schema"] != nil {
		return schema
	}
	o["$schema"] = jsonText("http://json-schema.org/draft-07/schema#")
	return o.raw()
}

// assistantSubgraphs lists the subgraphs of a graph, by their path.
func (s *assistants) assistantSubgraphs(w http.ResponseWriter, r *http.Request, _ *db.Assistant, g *served) (any, error) {
	recurse, err := flag(r, "recurse")
	if err != nil {
		return nil, err
	}
	depth := 1
	if recurse {
		depth = 1 << 10
	}
	under := r.PathValue("namespace")
	out := map[string]object{}
	var list func(d *draw.Graph, path []string) error
	list = func(d *draw.Graph, path []string) error {
		for _, n := range d.Nodes {
			if n.Sub == nil {
				continue
			}
			path := append(slices.Clone(path), n.ID)
			at := strings.Join(path, "|")
			sub, ok := g.Subgraph(path...)
			if ok && (under == "" || at == under || strings.HasPrefix(at, under+"|")) {
				o, err := schemasOf(sub)
				if err != nil {
					return err
				}
				o["graph_id"] = jsonText(sub.Name())
				// Clients know either of these names.
				for short, long := range map[string]string{"state": "state_schema", "input": "input_schema", "output": "output_schema", "config": "config_schema"} {
					o[short] = o[long]
				}
				out[at] = o
			}
			if err := list(n.Sub, path); err != nil {
				return err
			}
		}
		return nil
	}
	if err := list(g.Drawing(depth), nil); err != nil {
		return nil, err
	}
	return out, nil
}
