package retrieval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/retrieval"
)

// depot is an index of some documents.
func depot(t *testing.T, embedder model.Embedder) *retrieval.Index {
	t.Helper()
	var c memory.Config
	if embedder != nil {
		c.Index = &memory.Index{Embedder: embedder}
	}
	s, err := memory.NewInMemory(c)
	if err != nil {
		t.Fatal(err)
	}
	x := &retrieval.Index{Store: s, Namespace: []string{"depot"}, Embedder: embedder}
	doc := func(id, text, metadata string) retrieval.Document {
		return retrieval.Document{ID: id, Source: id + ".md", Text: text, Metadata: json.RawMessage(metadata)}
	}
	add(t, x,
		doc("brakes", "Every brake is tested twice a day.", `{"for":"drivers","year":2024}`),
		doc("hours", "Trams leave the depot at five, and buses leave the depot at six.", `{"for":"all","year":2025}`),
		doc("e7", "Error E-7: the brake needs a new pad.", `{"for":"workshop","year":2025}`),
		doc("pay", "Drivers are paid on the first day of a month.", `{"for":"drivers","year":2023}`),
	)
	return x
}

// ids names passages by their documents.
func ids(passages []retrieval.Passage) string {
	var out []string
	for _, p := range passages {
		out = append(out, p.Document)
	}
	return strings.Join(out, " ")
}

// east embeds what is about brakes as one direction and all else as another: words that
// an embedder doesn't know.
var east = model.EmbedFunc(2, func(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = []float32{0, 1}
		if strings.Contains(text, "brake") || strings.Contains(text, "stop") {
			out[i] = []float32{1, 0.1}
		}
	}
	return out, nil
})

func TestPassagesAreFoundByMeaningByWordsAndByBoth(t *testing.T) {
	words, meaning := depot(t, nil), depot(t, east)
	for name, c := range map[string]struct {
		r     retrieval.Retriever
		query string
		want  string
	}{
		"by words":                     {retrieval.Retriever{Index: words}, "When do buses leave the depot?", "hours e7 pay"},
		"rare words count for more":    {retrieval.Retriever{Index: words, K: 1}, "brake E-7", "e7"},
		"what has none of the words":   {retrieval.Retriever{Index: words}, "chocolate", ""},
		"by meaning, whatever is said": {retrieval.Retriever{Index: meaning, K: 2}, "how to stop", "e7 brakes"},
		"words in the stead of it":     {retrieval.Retriever{Index: meaning, By: retrieval.ByWords, K: 1}, "how to stop paid trams", "pay"},
		"both":                         {retrieval.Retriever{Index: meaning, By: retrieval.ByBoth, K: 1}, "stop: twice a day", "brakes"},
		"a filter":                     {retrieval.Retriever{Index: words, Filter: memory.Filter{memory.Or(memory.Eq("metadata.for", "drivers"), memory.Gt("metadata.year", 2024))}}, "brake", "brakes e7"},
		"a filter by meaning":          {retrieval.Retriever{Index: meaning, Filter: memory.Filter{memory.NotIn("metadata.for", "workshop", "all")}}, "stop", "brakes pay"},
		"a scope beside the filter": {retrieval.Retriever{
			Index: words, Filter: memory.Filter{memory.Lt("metadata.year", 2025)},
			Scope: func(context.Context) (memory.Filter, error) {
				return memory.Filter{memory.Eq("metadata.for", "drivers")}, nil
			},
		}, "a day of the brake", "pay brakes"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := c.r.Retrieve(t.Context(), c.query)
			if err != nil || ids(found) != c.want {
				t.Fatalf("found %q, error %v, want %q", ids(found), err, c.want)
			}
		})
	}
}

func TestResultsOfSeveralQueriesAreFused(t *testing.T) {
	m := scripted.New(scripted.Text(`{"queries": ["When do drivers get money?", "paid on which day", "", "wages of drivers"]}`).When(scripted.Says("wages")))
	r := retrieval.Retriever{Index: depot(t, nil), K: 2, Queries: retrieval.Rephrase(m, 5)}
	found, err := r.Retrieve(t.Context(), "wages of drivers")
	if err != nil || ids(found) != "pay brakes" {
		t.Fatalf("found %q, error %v", ids(found), err)
	}
	if want := 3.0 / 61; math.Abs(found[0].Score-want) > 1e-12 {
		t.Errorf("score %v, want %v", found[0].Score, want)
	}
	down := errors.New("down")
	r.Queries = func(context.Context, string) ([]string, error) { return nil, down }
	if _, err := r.Retrieve(t.Context(), "wages"); !errors.Is(err, down) {
		t.Fatal(err)
	}
}

func TestFusionCountsRanks(t *testing.T) {
	p := func(id string) retrieval.Passage { return retrieval.Passage{Chunk: retrieval.Chunk{Document: id}} }
	got := retrieval.Fuse([]retrieval.Passage{p("a"), p("b"), p("c")}, []retrieval.Passage{p("b"), p("d")}, nil)
	if ids(got) != "b a d c" || math.Abs(got[0].Score-1.0/62-1.0/61) > 1e-12 {
		t.Fatalf("%+v", got)
	}
}

func TestAModelPutsTheBestPassagesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		answers []scripted.Reply
		drop    bool
		want    string
		err     error
	}{
		"the others follow":       {[]scripted.Reply{scripted.Text(`{"passages": [3]}`)}, false, "e7 hours brakes pay", nil},
		"the others are dropped":  {[]scripted.Reply{scripted.Text(`{"passages": [4, 2]}`)}, true, "pay brakes", nil},
		"a form that is repaired": {[]scripted.Reply{scripted.Text(`{"passages": "none"}`), scripted.Text(`{"passages": [3]}`)}, true, "e7", nil},
		"a passage that isn't":    {[]scripted.Reply{scripted.Text(`{"passages": [1, 5]}`)}, true, "", new(retrieval.RankingError)},
		"a passage named twice":   {[]scripted.Reply{scripted.Text(`{"passages": [1, 1]}`)}, true, "", new(retrieval.RankingError)},
		"another form":            {[]scripted.Reply{scripted.Text(`no`), scripted.Text(`no`)}, true, "", new(model.FormatError)},
	} {
		t.Run(name, func(t *testing.T) {
			r := retrieval.Retriever{Index: depot(t, nil), Reranker: retrieval.ModelReranker{Model: scripted.New(c.answers...), Drop: c.drop}}
			found, err := r.Retrieve(t.Context(), "buses leave depot day brake")
			if c.err == nil {
				if err != nil || ids(found) != c.want {
					t.Fatalf("found %q, error %v, want %q", ids(found), err, c.want)
				}
				return
			}
			if fmt.Sprintf("%T", c.err) == "*model.FormatError" && !as[*model.FormatError](err) || fmt.Sprintf("%T", c.err) == "*retrieval.RankingError" && !as[*retrieval.RankingError](err) {
				t.Fatal(err)
			}
		})
	}
}

func TestWhereARerankerFailsTheOrderOfTheSearchStaysAndTheErrorIsTold(t *testing.T) {
	down := errors.New("down")
	r := retrieval.Retriever{Index: depot(t, nil), K: 1, Reranker: retrieval.RerankFunc(func(_ context.Context, _ string, p []retrieval.Passage) ([]retrieval.Passage, error) {
		if len(p) != 4 {
			t.Errorf("%d candidates", len(p))
		}
		p[0], p[1] = p[1], p[0]
		return nil, down
	})}
	if _, err := r.Retrieve(t.Context(), "buses leave depot day brake"); !errors.Is(err, down) {
		t.Fatal(err)
	}
	var told error
	r.OnRerankError = func(_ context.Context, err error) { told = err }
	found, err := r.Retrieve(t.Context(), "buses leave depot day brake")
	if err != nil || ids(found) != "hours" || told != down {
		t.Fatalf("found %q, error %v, told %v", ids(found), err, told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.Reranker = retrieval.RerankFunc(func(context.Context, string, []retrieval.Passage) ([]retrieval.Passage, error) {
		cancel()
		return nil, ctx.Err()
	})
	if _, err := r.Retrieve(ctx, "buses leave depot day brake"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestTheToolSaysWhereEachPassageStands(t *testing.T) {
	r := retrieval.Retriever{Index: depot(t, nil), K: 1}
	search := r.Tool("search_depot", "Finds what the depot's handbook says.")
	result, err := search.Call(t.Context(), json.RawMessage(`{"query": "buses"}`))
	if err != nil {
		t.Fatal(err)
	}
	var found retrieval.Found
	if err := json.Unmarshal([]byte(result.Text()), &found); err != nil {
		t.Fatal(err)
	}
	if p := found.Passages[0]; len(found.Passages) != 1 || p.Cite != "hours.md#0-64" || !strings.HasPrefix(p.Text, "Trams") || p.Source != "hours.md" || p.End != 64 {
		t.Fatalf("%+v", found)
	}
	if result, err := search.Call(t.Context(), json.RawMessage(`{"query": "chocolate"}`)); err != nil || result.Text() != `{"passages":[]}` {
		t.Fatal(result, err)
	}
}

func TestWhatIsAskedWronglyIsSaid(t *testing.T) {
	words, meaning := depot(t, nil), depot(t, east)
	scope := errors.New("nobody is logged in")
	for says, r := range map[string]retrieval.Retriever{
		"Retriever.Index":       {},
		"Retriever.K":           {Index: words, K: -1},
		"fewer than the 5":      {Index: words, Candidates: 4},
		"has no embedder":       {Index: words, By: retrieval.ByMeaning},
		"none of ByDefault":     {Index: words, By: 9},
		"query: it is empty":    {Index: meaning},
		"nobody is logged in":   {Index: words, Scope: func(context.Context) (memory.Filter, error) { return nil, scope }},
		`unknown operator "$x"`: {Index: words, Filter: memory.Filter{{Field: "a", Op: "$x"}}},
	} {
		query := "q"
		if strings.HasPrefix(says, "query") {
			query = " "
		}
		if _, err := r.Retrieve(t.Context(), query); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if _, err := retrieval.Rephrase(scripted.New(), 0)(t.Context(), "q"); !as[*retrieval.OptionError](err) {
		t.Error(err)
	}
}
