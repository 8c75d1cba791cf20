package digest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sign(words []string) []byte {
	s := newSigner()
	for _, w := range words {
		s.add(w)
	}
	return s.signature()
}

// jaccard is the exact similarity of the sets of shingles.
func jaccard(a, b []string) float64 {
	shingles := func(words []string) map[string]bool {
		out := make(map[string]bool)
		for i := 0; i+ShingleWords <= len(words); i++ {
			out[strings.Join(words[i:i+ShingleWords], " ")] = true
		}
		return out
	}
	x, y := shingles(a), shingles(b)
	both := 0
	for s := range x {
		if y[s] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

func randomWords(r *rand.Rand, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("w%d", r.IntN(5000))
	}
	return out
}

func TestSimilarityEstimatesJaccard(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var sum, squares float64
	n := 0
	for _, edits := range []int{0, 1, 5, 10, 20, 40, 80, 200} {
		for range 20 {
			a := randomWords(r, 400)
			b := slices.Clone(a)
			for range edits {
				b[r.IntN(len(b))] = "edited"
			}
			err := Similarity(sign(a), sign(b)) - jaccard(a, b)
			if math.Abs(err) > 5*0.045 {
				t.Errorf("%d edits: off by %.3f", edits, err)
			}
			sum += err
			squares += err * err
			n++
		}
	}
	if bias, rms := sum/float64(n), math.Sqrt(squares/float64(n)); math.Abs(bias) > 0.015 || rms > 0.05 {
		t.Errorf("bias %.4f, root mean square %.4f", bias, rms)
	}
}

func TestSignature(t *testing.T) {
	if sign(nil) != nil || Similarity(nil, nil) != 0 || Similarity(sign([]string{"a"}), []byte{1}) != 0 {
		t.Error("a missing signature is similar to something")
	}
	if s := Similarity(sign([]string{"a"}), sign([]string{"a"})); s != 1 {
		t.Errorf("one word: %v", s)
	}
	if s := Similarity(sign([]string{"a"}), sign([]string{"b"})); s != 0 {
		t.Errorf("two words: %v", s)
	}
	// Stored signatures must stay comparable: these bytes never change.
	if got := fmt.Sprintf("%x", sign(strings.Fields("the quick brown fox jumps"))[:16]); got != "1bec9eba1caf100305933da112e048ad" {
		t.Errorf("signature starts with %s", got)
	}
}

// Banding finds the pairs that comparing all with all finds.
func TestSimilarPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var sigs [][]byte
	for range 30 {
		base := randomWords(r, 200)
		for k := range 5 {
			c := slices.Clone(base)
			for range k * 4 {
				c[r.IntN(len(c))] = "edited"
			}
			sigs = append(sigs, sign(c))
		}
	}
	sigs = append(sigs, nil)
	got := make(map[[2]int]int)
	similarPairs(sigs, 0.7, func(int, int) bool { return false }, func(i, j int) { got[[2]int{i, j}]++ })
	pairs := 0
	for i := range sigs {
		for j := range i {
			if Similarity(sigs[i], sigs[j]) >= 0.7 {
				pairs++
				if got[[2]int{j, i}] != 1 {
					t.Errorf("pair %d, %d of similarity %.2f was found %d times", j, i, Similarity(sigs[i], sigs[j]), got[[2]int{j, i}])
				}
			}
		}
	}
	if len(got) != pairs || pairs < 60 {
		t.Errorf("found %d of %d pairs", len(got), pairs)
	}
}

func TestCorpusKeywords(t *testing.T) {
	c := NewCorpus([]Document{
		{ID: "a", Terms: []Term{{"queue", 3}, {"common", 3}}},
		{ID: "b", Terms: []Term{{"payments", 2}, {"common", 2}}},
		{ID: "c", Terms: []Term{{"payment", 1}, {"common", 1}}},
		{ID: "d"},
	}, CorpusOptions{})
	// By hand: N = 3; idf of a word in one document 1+ln(4/2), in two
	// 1+ln(4/3), in three 1.
	one, two := 1+math.Log(2), 1+math.Log(4.0/3)
	want := [][]Keyword{
		{{"queue", round(one / math.Hypot(one, 1)), 1}, {"common", round(1 / math.Hypot(one, 1)), 3}},
		{{"payment", round(two / math.Hypot(two, 1)), 2}, {"common", round(1 / math.Hypot(two, 1)), 3}},
		{{"payment", round(two / math.Hypot(two, 1)), 2}, {"common", round(1 / math.Hypot(two, 1)), 3}},
		nil,
	}
	for i, e := range c.Documents {
		if len(e.Keywords) != len(want[i]) || len(want[i]) > 0 && !reflect.DeepEqual(e.Keywords, want[i]) {
			t.Errorf("%s: got %v, want %v", e.ID, e.Keywords, want[i])
		}
	}
	var order []string
	for _, k := range c.Keywords {
		order = append(order, k.Text)
	}
	if got := strings.Join(order, " "); got != "common payment queue" && got != "payment common queue" {
		t.Errorf("corpus keywords: %v", c.Keywords)
	}
}

func TestCorpusLinks(t *testing.T) {
	c := NewCorpus([]Document{
		{ID: "README.md", Targets: []string{"a.md", "sub"}},
		{ID: "a.md", Targets: []string{"README.md", "image.png"}, Broken: []Link{{Dest: "x", Target: "x"}}, BrokenCount: 3},
		{ID: "b.md", TargetsOmitted: 2},
		{ID: "sub/index.md"},
		{ID: "sub/other.md", Unchecked: 1},
		{ID: "big.txt", Skip: SkipTooLarge},
	}, CorpusOptions{})
	if want := []string{"b.md", "sub/other.md"}; !reflect.DeepEqual(c.Orphans, want) {
		t.Errorf("orphans %q, want %q", c.Orphans, want)
	}
	tot := c.Totals
	if tot.InternalLinks != 3 || tot.BrokenLinks != 3 || tot.OmittedLinks != 2 || tot.Unchecked != 1 || len(c.Broken) != 1 || c.Broken[0].From != "a.md" || len(c.Skipped) != 1 || tot.Documents != 5 {
		t.Errorf("totals %+v, broken %+v", tot, c.Broken)
	}
}

func TestCorpusGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	base := randomWords(r, 300)
	chain := [][]string{base}
	for range 4 { // each similar to the one before
		next := slices.Clone(chain[len(chain)-1])
		for i := range 12 {
			next[(len(chain)*60+i*5)%300] = fmt.Sprint("edit", len(chain), i)
		}
		chain = append(chain, next)
	}
	var docs []Document
	for i, words := range chain {
		docs = append(docs, Document{ID: fmt.Sprintf("chain%d", i), Signature: sign(words), SHA256: fmt.Sprint(i)})
	}
	other := sign(randomWords(r, 300))
	docs = append(docs, Document{ID: "copy1", Signature: other, SHA256: "x"}, Document{ID: "copy2", Signature: other, SHA256: "x"},
		Document{ID: "alone", Signature: sign(randomWords(r, 300))}, Document{ID: "empty1"}, Document{ID: "empty2"})
	c := NewCorpus(docs, CorpusOptions{})
	if len(c.Groups) != 2 || len(c.Groups[0].Members) != 5 || len(c.Groups[1].Members) != 2 {
		t.Fatalf("groups %+v", c.Groups)
	}
	if m := c.Groups[1].Members[1]; m.ID != "copy2" || !m.Identical || m.Similarity != 1 {
		t.Errorf("copy: %+v", m)
	}
	if m := c.Groups[0].Members[4]; m.ID != "chain4" || m.Identical || m.Similarity >= c.Groups[0].Members[1].Similarity {
		t.Errorf("end of the chain: %+v", c.Groups[0].Members)
	}
	if c := NewCorpus(docs, CorpusOptions{Threshold: 0.99}); len(c.Groups) != 1 {
		t.Errorf("with a high threshold: %+v", c.Groups)
	}
}

// drawDocument draws a document as Analyse might return it.
func drawDocument(t *rapid.T) Document {
	word := rapid.SampledFrom(strings.Fields("queue queues payment payments gateway release releases box boxes the über データ"))
	d := Document{
		ID:     rapid.SampledFrom([]string{"README.md", "a.md", "b.md", "sub/c.md", "sub/README.md", "d|*_.txt", "e.md", "f.md"}).Draw(t, "id"),
		Size:   rapid.Int64Range(0, 1e6).Draw(t, "size"),
		Format: rapid.SampledFrom([]Format{Markdown, Plain}).Draw(t, "format"),
		Words:  rapid.IntRange(0, 5).Draw(t, "words"),
		Title:  rapid.String().Draw(t, "title"),
	}
	if rapid.IntRange(0, 5).Draw(t, "skip") == 0 {
		d.Skip = SkipBinary
	}
	for w, n := range rapid.MapOf(word, rapid.IntRange(1, 9)).Draw(t, "terms") {
		d.Terms = append(d.Terms, Term{w, n})
	}
	slices.SortFunc(d.Terms, func(a, b Term) int { return strings.Compare(a.Text, b.Text) })
	d.Signature = sign(rapid.SliceOfN(word, 0, 6).Draw(t, "text"))
	d.Targets = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a.md", "sub", "b.md", "README.md", "x.png"}), 0, 4, rapid.ID).Draw(t, "targets")
	d.External = append(d.External, rapid.SliceOfN(rapid.SampledFrom([]string{"https://a.example/x", "https://b.example/", "::"}), 0, 3).Draw(t, "urls")...)
	return d
}

func TestCorpusProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := rapid.SliceOfN(rapid.Custom(drawDocument), 0, 12).Draw(t, "docs")
		before, _ := json.Marshal(docs)
		c := NewCorpus(docs, CorpusOptions{})
		shuffled := rapid.Permutation(docs).Draw(t, "order")
		if again := NewCorpus(shuffled, CorpusOptions{}); !reflect.DeepEqual(c, again) {
			t.Fatalf("depends on the order:\n%+v\n%+v", c, again)
		}
		if after, _ := json.Marshal(docs); string(before) != string(after) {
			t.Fatal("the documents were changed")
		}
		ids := make(map[string]bool)
		for _, e := range c.Documents {
			if ids[e.ID] {
				t.Fatalf("%s twice", e.ID)
			}
			ids[e.ID] = true
			for _, k := range e.Keywords {
				if k.Score <= 0 || k.Score > 1 || k.Documents < 1 || k.Documents > len(c.Documents) {
					t.Fatalf("keyword %+v", k)
				}
			}
		}
		grouped := make(map[string]bool)
		for _, g := range c.Groups {
			if len(g.Members) < 2 || g.Members[0].Similarity != 1 {
				t.Fatalf("group %+v", g)
			}
			for _, m := range g.Members {
				if grouped[m.ID] || !ids[m.ID] {
					t.Fatalf("member %s", m.ID)
				}
				grouped[m.ID] = true
			}
		}
		for _, id := range c.Orphans {
			if !ids[id] {
				t.Fatalf("orphan %s", id)
			}
		}
		data, err := json.Marshal(c)
		var back Corpus
		if err != nil || json.Unmarshal(data, &back) != nil {
			t.Fatalf("JSON: %v", err)
		}
		if Report(back, ReportOptions{}) != Report(c, ReportOptions{}) {
			t.Fatal("the report differs after JSON")
		}
	})
}

// manyDocuments are documents such as a large folder has.
func manyDocuments(n int) []Document {
	r := rand.New(rand.NewPCG(7, 8))
	docs := make([]Document, n)
	boiler := sign(randomWords(r, 300))
	for i := range docs {
		d := Document{ID: fmt.Sprintf("dir%02d/file_%d.md", i%40, i), Title: fmt.Sprint("Title ", i), Summary: "A summary.", Format: Markdown,
			Size: int64(i), Words: i % 977, Seconds: i % 977 / 4, Signature: boiler, SHA256: "s"}
		if i%3 == 0 {
			d.Signature = sign(randomWords(r, 60))
		}
		for k := range 50 {
			d.Terms = append(d.Terms, Term{fmt.Sprintf("term%d", (i*31+k*k)%9000), 1 + k%7})
		}
		d.Targets = []string{fmt.Sprintf("dir%02d/file_%d.md", i%40, i/2)}
		d.Broken = []Link{{Dest: "x.md", Target: fmt.Sprintf("x%d.md", i)}}
		d.BrokenCount = 1
		d.External = []string{fmt.Sprintf("https://h%d.example/", i%100)}
		if i%100 == 0 {
			d.Skip = SkipTooLarge
		}
		docs[i] = d
	}
	return docs
}

func BenchmarkCorpus5000(b *testing.B) {
	docs := manyDocuments(5000)
	b.ReportAllocs()
	for b.Loop() {
		NewCorpus(docs, CorpusOptions{})
	}
}
