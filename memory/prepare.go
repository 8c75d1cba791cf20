package memory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Config is what the stores of all back ends can be made with. The zero value is
// fine.
type Config struct {
	// Index makes items findable by text; nil: they aren't.
	Index *Index

	// TTL is how long items live whose [PutOptions] don't say it; 0: for ever.
	TTL time.Duration

	// RefreshOnRead starts the time of an item with a TTL anew whenever Get or
	// Search returns it.
	RefreshOnRead bool

	// Now is the clock. Nil means the machine's, or the server's if the back end
	// has one.
	Now func() time.Time
}

// Check reports what is wrong with a configuration.
func (c *Config) Check() error {
	if c.TTL < 0 {
		return invalid(ErrOption, "TTL", "it is %v", c.TTL)
	}
	if c.Index != nil {
		return c.Index.check()
	}
	return nil
}

// Time returns the clock's time as items have it: in UTC, with microseconds.
func (c *Config) Time() time.Time {
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

func (c *Config) refresh(r Refresh) bool {
	return r == RefreshAlways || r == RefreshDefault && c.RefreshOnRead
}

// The rest of this file is what all stores do before they turn to their data.

// PreparedPut is a Put whose arguments were checked and whose texts were embedded.
type PreparedPut struct {
	Namespace string // labels, joined by [Separator]
	Key       string
	Value     json.RawMessage // without white space
	TTL       time.Duration   // 0: for ever
	IfVersion int64           // 0: no condition
	IfAbsent  bool
	Vectors   [][]float32 // each of length 1
	Keep      bool        // the vectors that are there, in the stead of Vectors
	Index     string      // name of the index that they are for
}

// preparePut checks the arguments of a Put and embeds the value's texts.
func (c *Config) preparePut(ctx context.Context, namespace []string, key string, value json.RawMessage, opts []PutOptions) (*PreparedPut, error) {
	o, err := one(opts)
	if err != nil {
		return nil, err
	}
	if err := CheckItem(namespace, key); err != nil {
		return nil, err
	}
	p := &PreparedPut{Namespace: Join(namespace), Key: key, IfVersion: o.IfVersion, IfAbsent: o.IfAbsent}
	switch {
	case o.TTL == 0:
		p.TTL = c.TTL
	case o.TTL > 0:
		p.TTL = o.TTL
	case o.TTL != Forever:
		return nil, invalid(ErrOption, "TTL", "it is %v", o.TTL)
	}
	if p.TTL > 0 { // at least what times can tell apart
		p.TTL = max(time.Microsecond, p.TTL.Truncate(time.Microsecond))
	}
	switch {
	case o.IfVersion < 0:
		return nil, invalid(ErrOption, "IfVersion", "it is %d", o.IfVersion)
	case o.IfVersion > 0 && o.IfAbsent:
		return nil, invalid(ErrOption, "IfAbsent", "it can't be met together with IfVersion")
	case count(len(o.Fields) > 0, o.NoIndex, len(o.Vectors) > 0, o.KeepVectors) > 1:
		return nil, invalid(ErrOption, "", "only one of Fields, NoIndex, Vectors and KeepVectors can be said")
	case o.KeepVectors && o.IfVersion == 0:
		return nil, invalid(ErrOption, "KeepVectors", "there is no IfVersion that says whose they are")
	case len(o.Fields)+len(o.Vectors) > 0 && c.Index == nil:
		return nil, ErrNoIndex
	}
	p.Keep = o.KeepVectors
	if p.Value, err = checkValue(value); err != nil {
		return nil, err
	}
	switch {
	case c.Index == nil || o.NoIndex || o.KeepVectors:
	case len(o.Vectors) > 0:
		p.Index = c.Index.Name
		p.Vectors, err = c.Index.given(ctx, o.Vectors)
	default:
		p.Index = c.Index.Name
		p.Vectors, err = c.Index.vectors(ctx, p.Value, o.Fields)
	}
	if err != nil {
		return nil, err
	}
	return p, ctx.Err()
}

func count(set ...bool) (n int) {
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}

// PreparedGet is a Get whose arguments were checked.
type PreparedGet struct {
	Namespace string // labels, joined by [Separator]
	Key       string
	Refresh   bool
}

// prepareGet checks the arguments of a Get.
func (c *Config) prepareGet(ctx context.Context, namespace []string, key string, opts []GetOptions) (*PreparedGet, error) {
	o, err := one(opts)
	if err != nil {
		return nil, err
	}
	if err := CheckItem(namespace, key); err != nil {
		return nil, err
	}
	if err := o.Refresh.check(); err != nil {
		return nil, err
	}
	return &PreparedGet{Namespace: Join(namespace), Key: key, Refresh: c.refresh(o.Refresh)}, ctx.Err()
}

// PreparedDelete is a Delete whose arguments were checked.
type PreparedDelete struct {
	Namespace string // labels, joined by [Separator]
	Key       string
	IfVersion int64 // 0: no condition
}

// prepareDelete checks the arguments of a Delete.
func (c *Config) prepareDelete(ctx context.Context, namespace []string, key string, opts []DeleteOptions) (*PreparedDelete, error) {
	o, err := one(opts)
	if err != nil {
		return nil, err
	}
	if err := CheckItem(namespace, key); err != nil {
		return nil, err
	}
	if o.IfVersion < 0 {
		return nil, invalid(ErrOption, "IfVersion", "it is %d", o.IfVersion)
	}
	return &PreparedDelete{Namespace: Join(namespace), Key: key, IfVersion: o.IfVersion}, ctx.Err()
}

// PreparedSearch is a Search whose arguments were checked and whose text was
// embedded.
type PreparedSearch struct {
	Prefix  string // labels, joined by [Separator]; empty: all namespaces
	Exact   bool
	Filter  Filter
	Ranked  bool      // by Vector
	Vector  []float32 // of length 1; nil if the text says nothing: then nothing is found
	Index   string    // name of the index that the vectors to compare with are of
	Limit   int       // -1: all
	Offset  int
	Refresh bool
}

// prepareSearch checks the arguments of a Search and embeds its text.
func (c *Config) prepareSearch(ctx context.Context, prefix []string, q Query) (*PreparedSearch, error) {
	check := checkLabels
	if q.Exact {
		check = CheckNamespace
	}
	if err := check(prefix); err != nil {
		return nil, err
	}
	if err := q.Filter.Check(); err != nil {
		return nil, err
	}
	if err := checkPage(q.Limit, q.Offset); err != nil {
		return nil, err
	}
	if err := q.Refresh.check(); err != nil {
		return nil, err
	}
	s := &PreparedSearch{Prefix: Join(prefix), Exact: q.Exact, Filter: q.Filter, Limit: q.Limit, Offset: q.Offset, Refresh: c.refresh(q.Refresh)}
	if s.Limit == 0 {
		s.Limit = DefaultLimit
	}
	if q.Text != "" {
		if c.Index == nil {
			return nil, ErrNoIndex
		}
		vectors, err := c.Index.embed(ctx, []string{q.Text})
		if err != nil {
			return nil, err
		}
		s.Ranked, s.Index = true, c.Index.Name
		if len(vectors) > 0 {
			s.Vector = vectors[0]
		}
	}
	return s, ctx.Err()
}

// CheckItem reports what is wrong with a namespace and a key.
func CheckItem(namespace []string, key string) error {
	if err := CheckNamespace(namespace); err != nil {
		return err
	}
	return checkKey(key)
}

// CheckValue reports what is wrong with the value of an item.
func CheckValue(value json.RawMessage) error {
	_, err := checkValue(value)
	return err
}

// Join writes a namespace as one text.
func Join(namespace []string) string { return strings.Join(namespace, Separator) }

// Split reads a namespace that was written by [Join].
func Split(namespace string) []string {
	if namespace == "" {
		return nil
	}
	return strings.Split(namespace, Separator)
}

// Check reports what is wrong with a query.
func (q NamespaceQuery) Check() error {
	for _, labels := range [][]string{q.Prefix, q.Suffix} {
		if err := checkLabels(labels); err != nil {
			return err
		}
	}
	if q.MaxDepth < 0 {
		return invalid(ErrOption, "MaxDepth", "it is %d", q.MaxDepth)
	}
	return checkPage(q.Limit, q.Offset)
}

// Root returns the labels before the first "*" of the prefix: all that the query
// matches begins with them.
func (q NamespaceQuery) Root() []string {
	if i := slices.Index(q.Prefix, "*"); i >= 0 {
		return q.Prefix[:i]
	}
	return q.Prefix
}

// Select returns those of the namespaces that the query asks for. They may come
// in any order and several times.
func (q NamespaceQuery) Select(namespaces [][]string) [][]string {
	var out [][]string
	for _, ns := range namespaces {
		if len(ns) < len(q.Prefix) || len(ns) < len(q.Suffix) ||
			!labelsMatch(q.Prefix, ns[:len(q.Prefix)]) || !labelsMatch(q.Suffix, ns[len(ns)-len(q.Suffix):]) {
			continue
		}
		if q.MaxDepth > 0 && len(ns) > q.MaxDepth {
			ns = ns[:q.MaxDepth]
		}
		out = append(out, slices.Clone(ns))
	}
	slices.SortFunc(out, slices.Compare)
	out = slices.CompactFunc(out, slices.Equal)
	limit := q.Limit
	if limit == 0 {
		limit = DefaultNamespacesLimit
	}
	return page(out, limit, q.Offset)
}

func labelsMatch(pattern, labels []string) bool {
	return slices.EqualFunc(pattern, labels, func(p, l string) bool { return p == "*" || p == l })
}
