package digest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"net/url"
	"path"
	"slices"
	"strings"
)

// The defaults of [CorpusOptions].
const (
	DefaultThreshold   = 0.7
	DefaultKeywords    = 24
	DefaultDocKeywords = 5
)

// CorpusOptions configures [NewCorpus]. The zero value means the defaults.
type CorpusOptions struct {
	Threshold   float64 // similarity from which documents are near-duplicates; at least 0.5
	Keywords    int     // how many keywords of the whole
	DocKeywords int     // how many keywords of each document
}

// Corpus is what the documents of a folder give together.
type Corpus struct {
	Documents []Entry   `json:"documents"` // sorted by ID
	Skipped   []Skipped `json:"skipped,omitempty"`
	Totals    Totals    `json:"totals"`
	Keywords  []Keyword `json:"keywords,omitempty"` // best first
	// Groups are the near-duplicates, the largest group first.
	Groups    []Group `json:"groups,omitempty"`
	Threshold float64 `json:"threshold"` // that Groups were found with
	// Broken are the links to files that do not exist, by document.
	Broken []BrokenLink `json:"broken,omitempty"`
	// Orphans are the documents that no other document links to, sorted,
	// without the README or index at the root, where a reader starts. It is
	// empty if no document links to another.
	Orphans []string `json:"orphans,omitempty"`
	// Hosts are the hosts of external links, those in most documents first.
	Hosts []Host `json:"hosts,omitempty"`
	// Largest and Longest are the IDs of the document with most bytes and of
	// that with most words, the first of several.
	Largest string `json:"largest,omitempty"`
	Longest string `json:"longest,omitempty"`
}

// Entry is what a corpus keeps of a document.
type Entry struct {
	ID       string    `json:"id"`
	Title    string    `json:"title"`
	Summary  string    `json:"summary,omitempty"`
	Written  string    `json:"written,omitempty"`     // by a model
	Missing  string    `json:"not_written,omitempty"` // why there is none
	Format   Format    `json:"format"`
	Language string    `json:"language,omitempty"`
	Size     int64     `json:"size"`
	Words    int       `json:"words"`
	Seconds  int       `json:"seconds"`
	Headings int       `json:"headings"`
	Incoming int       `json:"incoming"` // other documents that link to it
	Keywords []Keyword `json:"keywords,omitempty"`
}

// Skipped is a file that was not digested.
type Skipped struct {
	ID     string `json:"id"`
	Size   int64  `json:"size"`
	Skip   Skip   `json:"skip"`
	Detail string `json:"detail,omitempty"`
}

// Totals are sums over the documents.
type Totals struct {
	Documents     int     `json:"documents"`
	Empty         int     `json:"empty"` // without a word
	Bytes         int64   `json:"bytes"`
	Lines         int     `json:"lines"`
	CodeLines     int     `json:"code_lines"`
	Words         int     `json:"words"`
	Sentences     int     `json:"sentences"`
	Headings      int     `json:"headings"`
	Seconds       int     `json:"seconds"`
	InternalLinks int     `json:"internal_links"` // to other documents, each pair once
	ExternalLinks int     `json:"external_links"` // different URLs, by document
	BrokenLinks   int     `json:"broken_links"`   // also those beyond the bound of a Document
	Unchecked     int     `json:"unchecked"`      // links out of the folder
	OmittedLinks  int     `json:"omitted_links"`  // beyond the bound of a Document, so Orphans may hold too many
	Simplified    int     `json:"simplified"`
	Formats       []Count `json:"formats"`
	Languages     []Count `json:"languages"`
}

// Count is a name and how often it occurs.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Keyword is a term with its TF-IDF score.
type Keyword struct {
	Text      string  `json:"text"`
	Score     float64 `json:"score"`
	Documents int     `json:"documents"` // that have it among their terms
}

// Group is a set of documents that are nearly the same: each is similar enough
// to at least one other. Members are sorted by ID.
type Group struct {
	Members []Member `json:"members"`
}

// Member is a document of a [Group].
type Member struct {
	ID string `json:"id"`
	// Similarity to the first member, an estimate. In a chain of similar
	// documents it can be below the threshold.
	Similarity float64 `json:"similarity"`
	Identical  bool    `json:"identical"` // byte for byte, to the first member
}

// BrokenLink is a link in the document From to a file that does not exist.
type BrokenLink struct {
	From string `json:"from"`
	Link
}

// Host is a host and the number of documents that link to it.
type Host = Count

// maxHosts bounds Corpus.Hosts.
const maxHosts = 20

// NewCorpus combines documents. The result does not depend on their order. Of
// several documents with the same ID one is taken.
func NewCorpus(docs []Document, opts CorpusOptions) Corpus {
	opts.Threshold = min(max(cmp.Or(opts.Threshold, DefaultThreshold), 0.5), 1)
	opts.Keywords = cmp.Or(opts.Keywords, DefaultKeywords)
	opts.DocKeywords = cmp.Or(opts.DocKeywords, DefaultDocKeywords)

	c := Corpus{Threshold: opts.Threshold}
	docs = canonical(docs)
	kept := docs[:0:0]
	for _, d := range docs {
		if d.Skip != "" {
			c.Skipped = append(c.Skipped, Skipped{ID: d.ID, Size: d.Size, Skip: d.Skip, Detail: d.Detail})
			continue
		}
		kept = append(kept, d)
		c.Documents = append(c.Documents, Entry{
			ID: d.ID, Title: d.Title, Summary: d.Summary, Written: d.Written, Missing: d.NotWritten, Format: d.Format, Language: d.Language,
			Size: d.Size, Words: d.Words, Seconds: d.Seconds, Headings: d.HeadingCount,
		})
	}
	c.count(kept)
	c.keywords(kept, opts)
	c.groups(kept, opts.Threshold)
	c.links(kept)
	return c
}

// canonical returns docs sorted by ID, each ID once.
func canonical(docs []Document) []Document {
	out := slices.Clone(docs)
	slices.SortStableFunc(out, func(a, b Document) int {
		if order := cmp.Compare(a.ID, b.ID); order != 0 {
			return order
		}
		x, _ := json.Marshal(a) // a Document can always be marshalled
		y, _ := json.Marshal(b)
		return bytes.Compare(x, y)
	})
	return slices.CompactFunc(out, func(a, b Document) bool { return a.ID == b.ID })
}

func (c *Corpus) count(docs []Document) {
	t := &c.Totals
	formats, langs, hosts := make(map[string]int), make(map[string]int), make(map[string]int)
	var largest int64 = -1
	longest := -1
	for _, d := range docs {
		t.Documents++
		if d.Words == 0 {
			t.Empty++
		}
		t.Bytes += d.Size
		t.Lines += d.Lines
		t.CodeLines += d.CodeLines
		t.Words += d.Words
		t.Sentences += d.Sentences
		t.Headings += d.HeadingCount
		t.Seconds += d.Seconds
		t.ExternalLinks += d.ExternalCount
		t.BrokenLinks += d.BrokenCount
		t.Unchecked += d.Unchecked
		t.OmittedLinks += d.TargetsOmitted
		if d.Simplified {
			t.Simplified++
		}
		formats[string(d.Format)]++
		if d.Language != "" {
			langs[d.Language]++
		}
		if d.Size > largest {
			largest, c.Largest = d.Size, d.ID
		}
		if d.Words > longest {
			longest, c.Longest = d.Words, d.ID
		}
		own := make(map[string]bool)
		for _, raw := range d.External {
			u, err := url.Parse(raw)
			if err != nil {
				continue
			}
			host := strings.TrimPrefix(u.Host, "www.")
			if host != "" && !own[host] {
				own[host] = true
				hosts[host]++
			}
		}
	}
	t.Formats, t.Languages = ranked(formats), ranked(langs)
	c.Hosts = ranked(hosts)
	c.Hosts = slices.Clone(c.Hosts[:min(len(c.Hosts), maxHosts)])
}

// ranked returns the entries of m, the most frequent first.
func ranked(m map[string]int) []Count {
	out := make([]Count, 0, len(m))
	for _, k := range sortedKeys(m) {
		out = append(out, Count{Name: k, Count: m[k]})
	}
	slices.SortStableFunc(out, func(a, b Count) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// keywords finds the terms that are typical of each document and of all.
//
// The weight of a term that occurs n times in a document is
//
//	(1 + ln n) * (1 + ln((1 + N) / (1 + df)))
//
// where N is the number of documents with terms and df the number of those with
// this one: sublinear term frequency (G. Salton and C. Buckley, "Term-weighting
// approaches in automatic text retrieval", Information Processing & Management
// 24 (1988), 513-523) times inverse document frequency (K. Sparck Jones, "A
// statistical interpretation of term specificity and its application in
// retrieval", Journal of Documentation 28 (1972), 11-21), smoothed as in
// scikit-learn's TfidfTransformer. The weights of a document are then scaled to
// length 1, so that long documents do not drown the others, and a term's score
// in the corpus is the sum over the documents. Terms of at least two documents
// go first there.
//
// A Document only holds its most frequent terms, so df is a lower bound.
func (c *Corpus) keywords(docs []Document, opts CorpusOptions) {
	vocabulary := make(map[string]bool)
	for _, d := range docs {
		for _, t := range d.Terms {
			vocabulary[t.Text] = true
		}
	}
	known := func(w string) bool { return vocabulary[w] }
	withTerms := 0
	df := make(map[string]int)
	counts := make([]map[string]int, len(docs))
	for i, d := range docs {
		if len(d.Terms) == 0 {
			continue
		}
		withTerms++
		counts[i] = make(map[string]int, len(d.Terms))
		for _, t := range d.Terms {
			counts[i][fold(t.Text, known)] += t.Count
		}
		for w := range counts[i] {
			df[w]++
		}
	}
	total := make(map[string]float64)
	for i := range docs {
		list := make([]Keyword, 0, len(counts[i]))
		var squares float64
		for _, w := range sortedKeys(counts[i]) { // in order: sums of floats depend on it
			weight := (1 + math.Log(float64(counts[i][w]))) * (1 + math.Log(float64(1+withTerms)/float64(1+df[w])))
			squares += float64(weight * weight) // the conversion forbids fusing, which not all machines do
			list = append(list, Keyword{Text: w, Score: weight, Documents: df[w]})
		}
		length := math.Sqrt(squares)
		for k := range list {
			list[k].Score = round(list[k].Score / length)
			total[list[k].Text] += list[k].Score
		}
		sortKeywords(list)
		c.Documents[i].Keywords = slices.Clone(list[:min(len(list), max(opts.DocKeywords, 0))])
	}
	all := make([]Keyword, 0, len(total))
	for _, w := range sortedKeys(total) {
		all = append(all, Keyword{Text: w, Score: round(total[w]), Documents: df[w]})
	}
	sortKeywords(all)
	slices.SortStableFunc(all, func(a, b Keyword) int { return cmp.Compare(min(b.Documents, 2), min(a.Documents, 2)) })
	c.Keywords = slices.Clone(all[:min(len(all), max(opts.Keywords, 0))])
}

func sortKeywords(list []Keyword) {
	slices.SortFunc(list, func(a, b Keyword) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Text, b.Text))
	})
}

// round keeps four decimals, so that the last bits, in which machines differ,
// do not decide the order.
func round(f float64) float64 { return math.Round(f*1e4) / 1e4 }

// groups finds the near-duplicates: the connected components of the graph whose
// edges are the pairs that [similarPairs] finds.
func (c *Corpus) groups(docs []Document, threshold float64) {
	parent := make([]int, len(docs))
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	union := func(i, j int) {
		i, j = root(i), root(j)
		parent[max(i, j)] = min(i, j)
	}

	// Equal signatures are one, so that many copies cost no comparisons.
	first := make(map[string]int)
	sigs := make([][]byte, len(docs))
	for i, d := range docs {
		if len(d.Signature) != SignatureHashes*4 {
			continue
		}
		if f, ok := first[string(d.Signature)]; ok {
			union(f, i)
			continue
		}
		first[string(d.Signature)] = i
		sigs[i] = d.Signature
	}
	similarPairs(sigs, threshold, func(i, j int) bool { return root(i) == root(j) }, union)

	members := make(map[int][]Member)
	for i, d := range docs {
		r := root(i) // the least index, hence the first ID
		members[r] = append(members[r], Member{
			ID: d.ID, Similarity: Similarity(docs[r].Signature, d.Signature), Identical: docs[r].SHA256 != "" && docs[r].SHA256 == d.SHA256,
		})
	}
	for _, r := range sortedKeys(members) {
		if len(members[r]) > 1 {
			c.Groups = append(c.Groups, Group{Members: members[r]})
		}
	}
	slices.SortStableFunc(c.Groups, func(a, b Group) int { return cmp.Compare(len(b.Members), len(a.Members)) })
}

// links follows the links between the documents.
func (c *Corpus) links(docs []Document) {
	index := make(map[string]int, len(docs))
	for i, d := range docs {
		index[d.ID] = i
	}
	for i, d := range docs {
		reached := make(map[int]bool)
		for _, t := range d.Targets {
			if j, ok := destination(index, t); ok && j != i {
				reached[j] = true
			}
		}
		for j := range reached {
			c.Documents[j].Incoming++
			c.Totals.InternalLinks++
		}
		for _, l := range d.Broken {
			c.Broken = append(c.Broken, BrokenLink{From: d.ID, Link: l})
		}
	}
	if c.Totals.InternalLinks == 0 {
		return
	}
	for _, e := range c.Documents {
		if e.Incoming == 0 && !isEntrance(e.ID) {
			c.Orphans = append(c.Orphans, e.ID)
		}
	}
}

// destination returns the document at the path target; for a folder that is its
// README or index.
func destination(index map[string]int, target string) (int, bool) {
	if i, ok := index[target]; ok {
		return i, true
	}
	for _, name := range []string{"README.md", "readme.md", "index.md", "_index.md", "README.rst", "index.rst", "README.adoc", "index.adoc", "README.org", "index.org", "README.txt", "README"} {
		if i, ok := index[path.Join(target, name)]; ok {
			return i, true
		}
	}
	return 0, false
}

// isEntrance reports whether a reader would start at the document id.
func isEntrance(id string) bool {
	if strings.Contains(id, "/") {
		return false
	}
	stem := strings.ToLower(strings.TrimSuffix(id, path.Ext(id)))
	return stem == "readme" || stem == "index" || stem == "_index"
}
