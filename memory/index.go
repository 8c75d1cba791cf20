package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/model"
)

// Index makes items findable by the meaning of their texts. Texts are embedded
// when an item is put; an item has as many vectors as it has texts, and counts as
// near to a search as the nearest of them.
type Index struct {
	Embedder model.Embedder

	// Fields are those whose texts are embedded:
	//
	//	text           a field
	//	author.name    a field in an object
	//	notes[*].text  a field of each element of an array
	//	notes[0]       the first element; [-1] is the last
	//	$              the whole value, as JSON: the default
	//
	// Numbers, booleans, objects and arrays are embedded as their JSON. A field
	// that isn't there, null or an empty text is not embedded.
	Fields []string

	// Name stands for the embedder in databases. Vectors of different names or
	// lengths aren't compared: whoever changes to another embedder changes the
	// name too, and then puts again the items that are to be found by text.
	Name string
}

func (x *Index) check() error {
	if x.Embedder == nil {
		return invalid(ErrOption, "Index", "it has no embedder")
	}
	if n := x.Embedder.Dimensions(); n < 1 {
		return invalid(ErrOption, "Index", "its embedder has %d dimensions", n)
	}
	if len(x.Name) > MaxKey || !plain(x.Name) {
		return invalid(ErrOption, "Index", "its name is too long or no text")
	}
	_, err := parseFields(x.Fields)
	return err
}

// vectors embeds the texts of a value. It leaves out vectors that are zero, which
// have no direction.
func (x *Index) vectors(ctx context.Context, value json.RawMessage, fields []string) ([][]float32, error) {
	if len(fields) == 0 {
		fields = x.Fields
	}
	if len(fields) == 0 {
		fields = []string{"$"}
	}
	paths, err := parseFields(fields)
	if err != nil {
		return nil, err
	}
	v, err := decode(value)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, p := range paths {
		if texts, err = appendTexts(texts, v, p); err != nil {
			return nil, err
		}
	}
	return x.embed(ctx, texts)
}

func (x *Index) embed(ctx context.Context, texts []string) ([][]float32, error) {
	return units(ctx, x.Embedder, texts)
}

// given checks vectors that a caller made.
func (x *Index) given(ctx context.Context, vectors [][]float32) ([][]float32, error) {
	e := model.EmbedFunc(x.Embedder.Dimensions(), func(context.Context, []string) ([][]float32, error) { return vectors, nil })
	return units(ctx, e, make([]string, len(vectors)))
}

func units(ctx context.Context, e model.Embedder, texts []string) ([][]float32, error) {
	vectors, err := model.Embed(ctx, e, texts)
	if err != nil {
		return nil, fmt.Errorf("memory: embedding: %w", err)
	}
	var out [][]float32
	for _, v := range vectors {
		if u := unit(v); u != nil {
			out = append(out, u)
		}
	}
	return out, nil
}

// unit returns the vector of length 1 in the direction of v, nil if it has none.
func unit(v []float32) []float32 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return nil
	}
	length := math.Sqrt(sum)
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / length)
	}
	return out
}

// Cosine returns the cosine of the angle between two vectors of length 1, as those
// of a [PreparedPut] and a [PreparedSearch] are.
func Cosine(a, b []float32) float64 {
	var sum float64
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return max(-1, min(1, sum))
}

// step is one of a path: a name, or an element of an array.
type step struct {
	name    string
	element bool
	all     bool
	index   int
}

func parseFields(fields []string) ([][]step, error) {
	var out [][]step
	for _, f := range fields {
		p, err := parseField(f)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func parseField(field string) ([]step, error) {
	if field == "$" {
		return nil, nil
	}
	var path []step
	for part := range strings.SplitSeq(field, ".") {
		name, elements, found := strings.Cut(part, "[")
		if name == "" {
			return nil, invalid(ErrField, field, "a name is empty")
		}
		path = append(path, step{name: name})
		for found {
			var inside string
			if inside, elements, found = strings.Cut(elements, "]"); !found {
				return nil, invalid(ErrField, field, "a [ has no ]")
			}
			s := step{element: true, all: inside == "*"}
			if !s.all {
				n, err := strconv.Atoi(inside)
				if err != nil {
					return nil, invalid(ErrField, field, "%q is neither a number nor *", inside)
				}
				s.index = n
			}
			path = append(path, s)
			if elements == "" {
				break
			}
			if elements[0] != '[' {
				return nil, invalid(ErrField, field, "%q after a ]", elements)
			}
			elements = elements[1:]
		}
	}
	return path, nil
}

func appendTexts(texts []string, v any, path []step) ([]string, error) {
	if len(path) == 0 {
		switch v := v.(type) {
		case nil:
		case string:
			if v != "" {
				texts = append(texts, v)
			}
		default:
			var b strings.Builder
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false) // \u003c means nothing to an embedder
			if err := e.Encode(v); err != nil {
				return nil, err
			}
			texts = append(texts, strings.TrimSuffix(b.String(), "\n"))
		}
		return texts, nil
	}
	s, rest := path[0], path[1:]
	if !s.element {
		m, ok := v.(map[string]any)
		if !ok {
			return texts, nil
		}
		return appendTexts(texts, m[s.name], rest)
	}
	list, ok := v.([]any)
	if !ok {
		return texts, nil
	}
	if !s.all {
		i := s.index
		if i < 0 {
			i += len(list)
		}
		if i < 0 || i >= len(list) {
			return texts, nil
		}
		list = list[i : i+1]
	}
	for _, e := range list {
		var err error
		if texts, err = appendTexts(texts, e, rest); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// HashEmbedder returns an embedder for tests and examples that needs no model: a
// text's vector counts its words, each at a place that its hash says. Texts are
// near to each other when they share words, whatever these mean. The same text
// always has the same vector. A text without words has the vector zero. There
// must be at least one dimension.
func HashEmbedder(dimensions int) model.Embedder {
	return model.EmbedFunc(dimensions, func(ctx context.Context, texts []string) ([][]float32, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out := make([][]float32, len(texts))
		for i, text := range texts {
			out[i] = make([]float32, dimensions)
			for _, w := range words(text) {
				h := fnv.New64a()
				h.Write([]byte(w)) // never fails
				out[i][h.Sum64()%uint64(dimensions)]++
			}
		}
		return out, nil
	})
}

// words returns the words of a text in lower case.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}

// Scored is an item's version and its nearness to a search. See [Rank].
type Scored struct {
	Version int64
	Score   float64
}

// Rank returns those of the items that a search asks for, the nearest first, and
// of equally near ones the last put first. Of an item that comes several times
// the highest score counts.
func (s *PreparedSearch) Rank(items []Scored) []Scored {
	best := make(map[int64]float64, len(items))
	for _, x := range items {
		if score, ok := best[x.Version]; !ok || x.Score > score {
			best[x.Version] = x.Score
		}
	}
	versions := slices.Collect(maps.Keys(best))
	slices.SortFunc(versions, func(a, b int64) int {
		switch {
		case best[a] != best[b]:
			if best[a] > best[b] {
				return -1
			}
			return 1
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	versions = page(versions, s.Limit, s.Offset)
	out := make([]Scored, len(versions))
	for i, v := range versions {
		out[i] = Scored{v, best[v]}
	}
	return out
}
