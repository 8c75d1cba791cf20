package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

// imports sends a recording and returns the ID of the thread that it becomes.
func imports(t *testing.T, s *server.Server, text string) string {
	t.Helper()
	var one struct {
		ID string `json:"thread_id"`
	}
	if err := json.Unmarshal([]byte(okay(t, s, "POST", "/threads/import", text)), &one); err != nil {
		t.Fatal(err)
	}
	return one.ID
}

func TestAnImportedThreadIsAsTheOneThatWasExported(t *testing.T) {
	for name, data := range map[string]func(testing.TB) string{
		"memory":   func(testing.TB) string { return "memory" },
		"sqlite":   func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "threads.db") },
		"postgres": ownSchema,
	} {
		t.Run(name, func(t *testing.T) {
			s := calm(t, server.Data(data(t)), server.Graph(guide(t, first)))
			id := threadOn(t, s)
			okay(t, s, "POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"guide","input":{"city":"Bonn"}}`)
			text := okay(t, s, "GET", "/threads/"+id+"/recording", "")
			other := imports(t, s, text)
			as := func(id, text string) string { return strings.ReplaceAll(text, id, "THREAD") }
			for _, path := range []string{"/history?limit=100", "/state", "/state?subgraphs=true"} {
				if was, is := as(id, okay(t, s, "GET", "/threads/"+id+path, "")), as(other, okay(t, s, "GET", "/threads/"+other+path, "")); was != is || other == id {
					t.Errorf("%s was\n%s\nand is\n%s", path, was, is)
				}
			}
			again := okay(t, s, "GET", "/threads/"+other+"/recording", "")
			if _, was, _ := strings.Cut(text, "\n"); !strings.HasSuffix(again, was) {
				t.Errorf("exported again it is\n%s\nand was\n%s", again, text)
			}
			if got := replay(t, s, other, `{}`); len(got.Differences) > 0 || got.Supersteps != 2 || got.Error != nil {
				t.Errorf("replayed: %+v", got)
			}
			var view struct {
				Status   string
				Metadata object
				Values   guided
			}
			show := func(id string) string {
				if err := json.Unmarshal([]byte(okay(t, s, "GET", "/threads/"+id, "")), &view); err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(view.Status, view.Metadata["graph_id"], view.Values.Booked)
			}
			if got := show(other); got != "interruptedguidefalse" {
				t.Errorf("it is %s", got)
			}
			// Both go on, each for itself.
			okay(t, s, "POST", "/threads/"+other+"/runs/wait", `{"assistant_id":"guide","command":{"resume":true}}`)
			if is, was := show(other), show(id); is != "idleguidetrue" || was != "interruptedguidefalse" {
				t.Errorf("after an answer it is %s, and the other %s", is, was)
			}
			// And from where they were.
			var history []struct {
				Next       []string
				Checkpoint struct {
					ID string `json:"checkpoint_id"`
				}
			}
			if err := json.Unmarshal([]byte(okay(t, s, "GET", "/threads/"+other+"/history", "")), &history); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(history, func(h struct {
				Next       []string
				Checkpoint struct {
					ID string `json:"checkpoint_id"`
				}
			}) bool {
				return slices.Equal(h.Next, []string{"research"})
			})
			okay(t, s, "POST", "/threads/"+other+"/state", `{"values":{"fare":99},"checkpoint_id":"`+history[i].Checkpoint.ID+`"}`)
			okay(t, s, "POST", "/threads/"+other+"/runs/wait", `{"assistant_id":"guide","input":null}`)
			if show(other); view.Status != "interrupted" || view.Values.Fare != 99 || view.Values.Advice != "Off to Bonn, take a coat" {
				t.Errorf("forked it is %+v", view)
			}
		})
	}
}

// writing calls a function before each write, if it is set.
type writing struct {
	*checkpoint.Memory
	before func()
}

func (w *writing) Write(ctx context.Context, write *checkpoint.Write) (checkpoint.Written, error) {
	if w.before != nil {
		w.before()
	}
	return w.Memory.Write(ctx, write)
}

// Whatever write is the last of a process: what it leaves of an import is no thread.
func TestAThreadThatIsImportedInPartIsNotThere(t *testing.T) {
	store := &writing{Memory: checkpoint.NewMemory()}
	s := calm(t, server.UseStore(store), server.Graph(guide(t, first)))
	id := threadOn(t, s)
	okay(t, s, "POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"guide","input":{"city":"Bonn"}}`)
	text := okay(t, s, "GET", "/threads/"+id+"/recording", "")
	writes := 0
	store.before = func() {
		if writes++; okay(t, s, "POST", "/threads/count", "{}") != "1" {
			t.Errorf("before write %d there are several threads", writes)
		}
	}
	imports(t, s, text)
	if n := okay(t, s, "POST", "/threads/count", "{}"); n != "2" || writes < 4 {
		t.Errorf("%s threads after %d writes", n, writes)
	}
}

func TestAnImportedThreadIsOfAGraphThatIsServedOrOfNone(t *testing.T) {
	from := calm(t, server.Graph(guide(t, first)))
	id := threadOn(t, from)
	okay(t, from, "POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"guide","input":{"city":"Bonn"}}`)
	text := okay(t, from, "GET", "/threads/"+id+"/recording", "")
	of := func(s *server.Server, query string) string {
		t.Helper()
		w := quick(t.Context(), s, "POST", "/threads/import"+query, text)
		var view struct {
			Metadata object
			Values   *guided
		}
		if w.Code != 200 {
			return fmt.Sprint(w.Code, " ", w.Body)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &view); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(view.Metadata["graph_id"], view.Values != nil)
	}
	named := server.Graph(guide(t, first), server.Named("tours"))
	if got := of(calm(t, named), ""); got != "tourstrue" {
		t.Errorf("under another name: %s", got)
	}
	if got := of(calm(t), ""); got != "<nil> false" {
		t.Errorf("of a graph that isn't served: %s", got)
	}
	twice := calm(t, named, server.Graph(guide(t, first), server.Named("trips")))
	if got := of(twice, ""); got != "<nil> false" {
		t.Errorf("of one that is served twice: %s", got)
	}
	if got := of(twice, "?graph_id=trips"); got != "tripstrue" {
		t.Errorf("of one that is named: %s", got)
	}
	if got := of(twice, "?graph_id=none"); !strings.HasPrefix(got, `404 Graph "none" not found`) {
		t.Errorf("of one that isn't there: %s", got)
	}
	if got := of(calm(t, server.Graph(bulky(t, 1, 1))), "?graph_id=bulky"); !strings.HasPrefix(got, `422 The recording can't be read: `) || !strings.Contains(got, `waits in graph "guide"`) {
		t.Errorf("of another: %s", got)
	}
}

// A recording as it can't be is refused, and leaves nothing.
func TestADamagedRecordingIsRefused(t *testing.T) {
	s := calm(t, server.Graph(guide(t, first)), server.WithLimits(server.Limits{Body: 100_000}))
	id := threadOn(t, s)
	okay(t, s, "POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"guide","input":{"city":"Bonn"}}`)
	text := okay(t, s, "GET", "/threads/"+id+"/recording", "")
	lines := strings.SplitAfter(text, "\n")
	header := lines[0]
	one := func(record string) string {
		return header + `{"record":` + record + "}\n" + `{"end":true,"records":1}` + "\n"
	}
	const at = `"id":"0198f3c2-5b7a-7d10-8e21-4c3b2a190001","epoch":"0198f3c2-5b7a-7d10-8e21-4c3b2a190001","created_at":"2026-01-02T03:04:05Z"`
	for name, tt := range map[string]struct {
		body string
		code int
		says string
	}{
		"nothing":                        {"", 422, "not a recording: it is empty"},
		"something else":                 {`{"metadata":{}}`, 422, "not a recording"},
		"cut off":                        {strings.Join(lines[:3], ""), 422, "line 4: the recording is cut off"},
		"without a line":                 {strings.Join(slices.Delete(slices.Clone(lines), 2, 3), ""), 422, "the recording is cut off"},
		"of a newer format":              {strings.Replace(text, `"format":100`, `"format":200`, 1), 422, "the recording has format 2.0"},
		"with an unknown member":         {strings.Replace(text, `"source"`, `"sauce"`, 1), 422, `unknown field "sauce"`},
		"not in UTF-8":                   {strings.Replace(text, "Bonn", "Bo\xffn", 1), 400, "not UTF-8"},
		"nested too deeply":              {strings.Replace(text, `"Bonn"`, strings.Repeat("[", 300)+strings.Repeat("]", 300), 1), 422, "nested too deeply"},
		"too large":                      {text + strings.Repeat(" ", 100_000), 413, "body is larger than"},
		"of no record":                   {header + `{"end":true}`, 422, "no record of the thread's own log"},
		"of subgraphs alone":             {header + `{"log":"/x","record":{"seq":1,` + at + `}}` + "\n" + `{"end":true,"records":1}`, 422, "no record of the thread's own log"},
		"with an ID that is none":        {one(`{"id":"i","seq":1,"epoch":"i"}`), 422, "its ID is no ID of a checkpoint"},
		"with a record twice":            {header + `{"record":{"seq":1,` + at + `}}` + "\n" + `{"record":{"seq":2,` + at + `}}` + "\n" + `{"end":true,"records":2}`, 422, "it is there twice"},
		"with a record before it":        {one(`{"seq":1,"parent":"0198f3c2-5b7a-7d10-8e21-4c3b2a190001",` + at + `}`), 422, "it stands before itself"},
		"with a gap without an end":      {one(`{"seq":9000000000000000000,` + at + `}`), 422, "its sequence number is 9000000000000000000"},
		"with a gap that is large":       {one(`{"seq":900000000,` + at + `}`), 422, "comes to 900000000 records and results"},
		"of a branch of another":         {one(`{"seq":1,"branch":"0198f3c2-5b7a-7d10-8e21-4c3b2a190009",` + at + `}`), 422, "the first of a branch that has another ID"},
		"with a lineage that is none":    {one(`{"seq":2,"branch":"0198f3c2-5b7a-7d10-8e21-4c3b2a190001","lineage":[{"to":2}],` + at + `}`), 422, "its lineage is none"},
		"sealed":                         {one(`{"seq":1,"sealed":{"data":"eA=="},` + at + `}`), 422, "it is sealed"},
		"with an epoch that isn't there": {one(`{"seq":1,"id":"0198f3c2-5b7a-7d10-8e21-4c3b2a190001","epoch":"0198f3c2-5b7a-7d10-8e21-4c3b2a190002"}`), 422, "The recording is damaged"},
		"of a task that isn't planned":   {one(`{"seq":1,"open":[{"task":7}],` + at + `}`), 422, "The recording is damaged"},
		"of a task below all":            {one(`{"seq":1,"open":[{"task":-7}],` + at + `}`), 422, "it counts -7"},
		"of a node that isn't there":     {one(`{"seq":1,"source":"input","graph":"guide","tasks":[{"node":"fly"}],` + at + `}`), 422, `"fly"`},
		"of a state of another kind":     {one(`{"seq":1,"source":"input","graph":"guide","changes":[{"data":{"fare":"x"}}],` + at + `}`), 422, "The recording can't be read"},
		"with ranges of its own":         {one(`{"seq":1,"snapshot":{"values":{},"ranges":{"fare":[[1,9000000000000000000]]}},` + at + `}`), 422, "its snapshot refers to records"},
		"with a zero character":          {one(`{"seq":1,"metadata":{"a":"\u0000"},` + at + `}`), 422, "zero character"},
		"with a time of another age":     {one(`{"seq":1,"changes":[{"began":9000000000000000000}],` + at + `}`), 422, "of the year"},
		"with a result of no task":       {strings.Replace(header+`{"record":{"seq":1,`+at+`}}`+"\n"+`{"result":{"epoch":"x","kind":"once","task":0}}`+"\n"+`{"end":true,"records":1,"results":1}`, "", "", 1), 422, "its epoch is no ID"},
	} {
		t.Run(name, func(t *testing.T) {
			before := okay(t, s, "POST", "/threads/count", `{}`)
			w := quick(t.Context(), s, "POST", "/threads/import", tt.body)
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if err := sane(w); err != nil {
				t.Error(err)
			}
			if after := okay(t, s, "POST", "/threads/count", `{}`); after != before {
				t.Errorf("there were %s threads, and are %s", before, after)
			}
		})
	}
}

// employing is a graph that starts another and waits for its end.
func employing(t testing.TB) (outer *graph.Graph[remembered], inner *graph.Graph[remembered]) {
	t.Helper()
	in := graph.New[remembered]("worker")
	in.AddNode("work", func(ctx context.Context, s *remembered) (err error) {
		s.Who, err = graph.Interrupt[string](ctx, "who", "Who?")
		return err
	}).AddEdge(graph.Start, "work")
	worker := in.MustCompile()
	b := graph.New[remembered]("employing")
	b.AddNode("spawn", func(ctx context.Context, s *remembered) error {
		turn, err := graph.Spawn(ctx, "w", worker.Thread(""), worker.Input(func(*remembered) error { return nil }))
		if err != nil {
			return err
		}
		end, err := turn.Wait(ctx)
		if err == nil {
			s.Who = end.Who
		}
		return err
	}).AddEdge(graph.Start, "spawn")
	return b.MustCompile(), worker
}

var turnOf = regexp.MustCompile(`"thread":"([0-9a-f-]{36})","record"`)

// What an import says of other threads gets nobody anything of theirs.
func TestAnImportedThreadIsAloneWithWhatItsUserSees(t *testing.T) {
	store := checkpoint.NewMemory()
	outer, worker := employing(t)
	c := start(t, server.UseStore(store), server.Graph(outer), server.Graph(worker), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()), quiet())
	ann, bob := visitor{c, "ann"}, visitor{c, "bob"}
	id := ann.json("POST", "/threads", `{}`).(object)["thread_id"].(string)
	ann.json("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"employing","input":{}}`)
	export := func(id string) string {
		status, text := ann.send("GET", "/threads/"+id+"/recording", "")
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		return text
	}
	text := export(id)
	spawned := turnOf.FindStringSubmatch(text)
	if spawned == nil {
		t.Fatalf("it waits for no thread: %s", text)
	}
	waitFor(t, "the spawned thread is ann's", func() bool {
		status, _ := ann.send("GET", "/threads/"+spawned[1], "")
		return status == http.StatusOK
	})
	copied := ann.json("POST", "/threads/import", text).(object)
	if copied["metadata"].(object)["owner"] != "ann" || copied["status"] != "interrupted" {
		t.Errorf("ann's is %v", copied)
	}
	refused := func(name, text string) {
		t.Helper()
		if status, answer := bob.send("POST", "/threads/import", text); status != 422 || !strings.Contains(answer, spawned[1]) || !strings.Contains(answer, "isn't yours") {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	refused("what waits for ann's thread", text)
	// What a node would take for a turn that it has started stands beside the log.
	rec, err := recording.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rec.Log("").Records {
		for i := range r.Open {
			r.Open[i].Questions = nil
		}
	}
	var without bytes.Buffer
	if err := rec.Write(&without); err != nil {
		t.Fatal(err)
	}
	refused("what has started ann's thread", without.String())
	for _, other := range []string{newThread(), "anything"} {
		if status, answer := ann.send("POST", "/threads/import", strings.ReplaceAll(text, spawned[1], other)); status != 422 || !strings.Contains(answer, other) {
			t.Errorf("what waits for %s: %d %s", other, status, answer)
		}
	}
	if got := bob.json("POST", "/threads/count", `{}`); got != 0.0 {
		t.Errorf("bob has %v threads", got)
	}

	// The thread that was spawned has a caller, of which an import of it knows nothing.
	if head, _, err := store.Head(t.Context(), checkpoint.Log{Thread: checkpoint.ThreadID(spawned[1])}); err != nil || head.Caller != checkpoint.ThreadID(id) {
		t.Fatalf("the spawned one: %v, %v", head, err)
	}
	alone := bob.json("POST", "/threads/import", export(spawned[1])).(object)["thread_id"].(string)
	if head, _, err := store.Head(t.Context(), checkpoint.Log{Thread: checkpoint.ThreadID(alone)}); err != nil || head.Caller != "" {
		t.Errorf("the import: %v, %v", head, err)
	}
	bob.json("POST", "/threads/"+alone+"/runs/wait", `{"assistant_id":"worker","command":{"resume":"bob"}}`)
	if status, state := ann.send("GET", "/threads/"+id+"/state", ""); status != 200 || strings.Contains(state, "bob") {
		t.Errorf("ann's thread is %d %s", status, state)
	}
}

func TestAnImportIsForThoseWhoMayMakeAndEditThreads(t *testing.T) {
	only := func(_ context.Context, u *server.User, a *server.Action) (server.Filter, error) {
		if slices.Contains(u.Permissions, "no:"+string(a.Resource)+":"+string(a.Verb)) {
			return server.Filter{}, fmt.Errorf("%w: %s %s", server.ErrForbidden, a.Verb, a.Resource)
		}
		a.Set("owner", u.ID)
		return server.Where("owner", u.ID), nil
	}
	c := start(t, server.Graph(guide(t, first)), server.Authenticate(byHeader), server.Authorize(only), quiet())
	ann := visitor{c, "ann"}
	id := ann.json("POST", "/threads", `{"metadata":{"secret":"ann's"}}`).(object)["thread_id"].(string)
	ann.json("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"guide","input":{"city":"Bonn"}}`)
	_, text := ann.send("GET", "/threads/"+id+"/recording", "")
	for user, want := range map[string]int{"bob": 200, "bob/no:threads:create": 403, "bob/no:threads:update": 403, "": 401} {
		if status, answer := (visitor{c, user}).send("POST", "/threads/import", text); status != want || want == 200 && (!strings.Contains(answer, `"owner":"bob"`) || strings.Contains(answer, `"secret"`)) {
			t.Errorf("%s: %d %s", user, status, answer)
		}
	}
}

// FuzzImport: whatever is imported, the server answers, and what it took can be looked at,
// replayed and run, or is refused.
func FuzzImport(f *testing.F) {
	s, err := server.New(f.Context(), server.Graph(guide(f, first)), quiet())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			f.Error(err)
		}
	})
	do := func(t testing.TB, method, path, body string) string {
		t.Helper()
		w := quick(t.Context(), s, method, path, body)
		if err := sane(w); err != nil {
			t.Errorf("%s %s: %d %.300s: %v", method, path, w.Code, w.Body, err)
		}
		return w.Body.String()
	}
	var made struct {
		ID string `json:"thread_id"`
	}
	if err := json.Unmarshal([]byte(do(f, "POST", "/threads", `{}`)), &made); err != nil {
		f.Fatal(err)
	}
	at := "/threads/" + made.ID
	do(f, "POST", at+"/runs/wait", `{"assistant_id":"guide","input":{"city":"Bonn"}}`)
	f.Add(do(f, "GET", at+"/recording", ""))
	do(f, "POST", at+"/runs/wait", `{"assistant_id":"guide","command":{"resume":true}}`)
	f.Add(do(f, "GET", at+"/recording", ""))
	f.Add(`{"superstep":"recording","format":100,"thread":"t","graph":"guide"}` + "\n" + `{"record":{"id":"0198f3c2-5b7a-7d10-8e21-4c3b2a190001","seq":3,"epoch":"0198f3c2-5b7a-7d10-8e21-4c3b2a190001","source":"input","tasks":[{"node":"book"}],"children":{"/x":"y"}}}` + "\n" + `{"end":true,"records":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		made.ID = ""
		if json.Unmarshal([]byte(do(t, "POST", "/threads/import", text)), &made) != nil || made.ID == "" {
			return
		}
		at := "/threads/" + made.ID
		for _, path := range []string{"", "/state?subgraphs=true", "/history?limit=100", "/recording", "/model_calls", "/tool_calls"} {
			do(t, "GET", at+path, "")
		}
		do(t, "POST", at+"/replay", `{}`)
		do(t, "POST", at+"/runs/wait", `{"assistant_id":"guide","command":{"resume":true}}`)
		do(t, "POST", at+"/runs/wait", `{"assistant_id":"guide","input":{"city":"Ulm"}}`)
		do(t, "DELETE", at, "")
	})
}
