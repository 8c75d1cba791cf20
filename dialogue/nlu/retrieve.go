package nlu

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/language"
	"github.com/superstep-dev/superstep/model"
)

// rank returns the flows, those first that fit the message best. Flows on the stack stand
// before all others.
func (u *Understander) rank(ctx context.Context, in dialogue.Understand) ([]dialogue.FlowOffer, error) {
	texts := make([]string, len(in.Flows))
	for i, f := range in.Flows {
		texts[i] = about(f)
	}
	score := bm25(u.docs(texts), in.Message.Text)
	if u.options.Embedder != nil {
		near, err := u.near(ctx, texts, in.Message.Text)
		if err != nil {
			return nil, &Error{ErrorRetrieval, err}
		}
		score = fused(score, near)
	}
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
		if slices.ContainsFunc(in.Stack, func(f dialogue.FlowContext) bool { return f.FlowName == in.Flows[i].Name }) {
			score[i] = math.Inf(1)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	ranked := make([]dialogue.FlowOffer, len(order))
	for i, n := range order {
		ranked[i] = in.Flows[n]
	}
	return ranked, nil
}

// about is what a flow is found by.
func about(f dialogue.FlowOffer) string {
	parts := append([]string{strings.ReplaceAll(f.Name, "_", " "), f.Description}, f.Examples...)
	for _, s := range f.Slots {
		parts = append(append(parts, strings.ReplaceAll(s.Name, "_", " "), s.Description), s.Options...)
	}
	return strings.Join(parts, "\n")
}

// doc is a text that is searched: how often it has each word, and how many it has.
type doc struct {
	counts map[string]int
	length int
}

// docs returns what is searched of texts. It is worked out once for each.
func (u *Understander) docs(texts []string) []doc {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.searched) > mostKept+len(texts) {
		clear(u.searched)
	}
	docs := make([]doc, len(texts))
	for i, t := range texts {
		d, ok := u.searched[t]
		if !ok {
			d = doc{counts: map[string]int{}}
			for _, w := range terms(t) {
				d.counts[w]++
				d.length++
			}
			u.searched[t] = d
		}
		docs[i] = d
	}
	return docs
}

// mostKept is how many flows are remembered, of programs that are no longer talked to too.
const mostKept = 20_000

// bm25 scores texts by the words that they share with a query, rare words more (Okapi BM25).
func bm25(docs []doc, query string) []float64 {
	const k1, b = 1.2, 0.75
	total := 0
	for _, d := range docs {
		total += d.length
	}
	mean := max(1, float64(total)/max(1, float64(len(docs))))
	scores := make([]float64, len(docs))
	words := terms(query)
	slices.Sort(words)
	for _, w := range slices.Compact(words) {
		in := 0.0 // documents that have the word
		for _, d := range docs {
			if d.counts[w] > 0 {
				in++
			}
		}
		idf := math.Log(1 + (float64(len(docs))-in+0.5)/(in+0.5))
		for i, d := range docs {
			if n := float64(d.counts[w]); n > 0 {
				scores[i] += idf * n * (k1 + 1) / (n + k1*(1-b+b*float64(d.length)/mean))
			}
		}
	}
	return scores
}

// terms returns the words of a text and, of longer ones, their parts of four letters: so
// forms of a word and compounds, of which German is made, find each other.
func terms(text string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(language.Fold(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		out = append(out, w)
		r := []rune(w)
		if cjk := len(r) > 1 && unicode.In(r[0], unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul); cjk {
			for i := 2; i <= len(r); i++ { // without blanks between words
				out = append(out, string(r[i-2:i]))
			}
			continue
		}
		for i := 4; i <= len(r) && len(r) > 4; i++ {
			out = append(out, "#"+string(r[i-4:i]))
		}
	}
	return out
}

// near returns how near the meaning of each text is to the query's: the cosine.
func (u *Understander) near(ctx context.Context, docs []string, query string) ([]float64, error) {
	missing := map[string]bool{}
	u.mu.Lock()
	if len(u.vectors) > mostKept+len(docs) {
		clear(u.vectors)
	}
	for _, d := range docs {
		if u.vectors[d] == nil {
			missing[d] = true
		}
	}
	u.mu.Unlock()
	texts := append(slices.Sorted(maps.Keys(missing)), query)
	vectors, err := model.Embed(ctx, u.options.Embedder, texts)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, t := range texts[:len(texts)-1] {
		u.vectors[t] = vectors[i]
	}
	q := vectors[len(vectors)-1]
	scores := make([]float64, len(docs))
	for i, d := range docs {
		scores[i] = cosine(u.vectors[d], q)
	}
	return scores, nil
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range min(len(a), len(b)) {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return dot / math.Sqrt(aa*bb)
}

// fused joins two ways to score by their ranks (reciprocal rank fusion).
func fused(lists ...[]float64) []float64 {
	out := make([]float64, len(lists[0]))
	for _, scores := range lists {
		order := make([]int, len(scores))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		for rank, i := range order {
			if scores[i] > 0 {
				out[i] += 1 / float64(60+rank)
			}
		}
	}
	return out
}
