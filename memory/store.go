package memory

import (
	"context"
	"encoding/json"
	"time"
)

// Store is a long-term store of items. It is safe for concurrent use. Package
// memorytest has the tests that every Store passes.
//
// All methods return promptly when the context ends, with its error. Wrong
// arguments are an [*InvalidError]; after Close, the error is [ErrClosed].
type Store interface {
	// Get returns an item. The error is a [*NotFoundError] if there is none or
	// it has expired.
	Get(ctx context.Context, namespace []string, key string, opts ...GetOptions) (Item, error)

	// Put stores a JSON object, whole, in place of what was there, and returns
	// the item. If a condition of the options isn't met, the error is a
	// [*ConflictError] and nothing has changed.
	Put(ctx context.Context, namespace []string, key string, value json.RawMessage, opts ...PutOptions) (Item, error)

	// Delete removes an item. An item that isn't there is no error, unless a
	// version is expected.
	Delete(ctx context.Context, namespace []string, key string, opts ...DeleteOptions) error

	// Search returns the items whose namespaces begin with the labels of prefix
	// and which meet the query: those whose meaning is nearest to the query's
	// text first, or the ones written last if it has none. An empty prefix
	// means all namespaces.
	Search(ctx context.Context, prefix []string, q Query) ([]Item, error)

	// Namespaces lists the namespaces that have items, sorted label by label.
	Namespaces(ctx context.Context, q NamespaceQuery) ([][]string, error)

	// Sweep removes the items that have expired from where they are stored and
	// returns how many these were. It changes nothing that other methods show.
	Sweep(ctx context.Context) (int, error)

	// Close frees what the store holds. A second Close returns [ErrClosed].
	Close() error
}

// Item is what a store keeps under a key.
type Item struct {
	Namespace []string `json:"namespace"`
	Key       string   `json:"key"`

	// Value is a JSON object. It is equal to what was put, but its bytes may
	// not be: order of fields, white space and escapes aren't kept.
	Value json.RawMessage `json:"value"`

	// CreatedAt is when the item was put for the first time since it didn't
	// exist, UpdatedAt when it was put last, which is not before that whatever
	// clocks say. Times are in UTC and have microseconds.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	// ExpiresAt is when the item expires; zero: never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	// Version is another one after every Put, greater than 0, and never used
	// again in this store. See [PutOptions.IfVersion].
	Version int64 `json:"version"`

	// Score is how near the item is to the text of a search, from -1 to 1: the
	// cosine of the angle between the vectors. Without such a text it is 0.
	Score float64 `json:"score,omitzero"`
}

// Separator stands between the labels of a namespace that is written as one
// text. A label must not contain it.
const Separator = "."

// Limits of what stores take.
const (
	MaxKey       = 1000 // bytes of a key
	MaxNamespace = 1000 // bytes of a namespace's labels, joined by separators
	MaxDepth     = 1000 // objects and arrays in one another: a value is the first
)

// Forever as a TTL lets an item live until it is deleted, whatever the store's
// default is.
const Forever time.Duration = -1

// PutOptions changes how an item is put. The zero value is fine. The fields
// IfVersion and IfAbsent exclude each other, as do Fields, NoIndex, Vectors and
// KeepVectors.
type PutOptions struct {
	// TTL is how long the item lives; 0 means the store's default and [Forever]
	// no end. Each Put sets it anew.
	TTL time.Duration

	// IfVersion stores only if the item still has this version (compare and
	// set); 0 means no condition.
	IfVersion int64

	// IfAbsent stores only if there is no such item.
	IfAbsent bool

	// Fields are the fields that are embedded for search, instead of those of
	// the store's [Index]. Without an index they are [ErrNoIndex].
	Fields []string

	// NoIndex keeps the item from being found by a text.
	NoIndex bool

	// Vectors are those of the item's texts, which the caller has embedded with the
	// embedder of the store's [Index]: the texts of many items at once, say. Without an
	// index they are [ErrNoIndex]; wrong ones are a [*model.EmbeddingError].
	Vectors [][]float32

	// KeepVectors keeps the vectors that the item has: the caller knows that its texts
	// are in the new value, too. It needs IfVersion.
	KeepVectors bool
}

// GetOptions changes how an item is read. The zero value is fine.
type GetOptions struct {
	Refresh Refresh
}

// DeleteOptions changes how an item is deleted. The zero value is fine.
type DeleteOptions struct {
	// IfVersion deletes only if the item still has this version; 0 means no
	// condition.
	IfVersion int64
}

// Refresh says whether reading an item with a TTL starts its time anew. It
// changes neither UpdatedAt nor Version, and never makes the time shorter.
type Refresh int8

// The choices.
const (
	RefreshDefault Refresh = iota // as [Config.RefreshOnRead] says
	RefreshAlways
	RefreshNever
)

// Limits of searches. [Unlimited] as a limit means all.
const (
	DefaultLimit           = 10
	DefaultNamespacesLimit = 100
	Unlimited              = -1
)

// Query says which items a search returns. The zero value means the last ten.
type Query struct {
	// Filter is what the values must meet. Conditions that come as JSON are
	// read by [ParseFilter].
	Filter Filter

	// Text ranks the items by how near they are to its meaning, and leaves out
	// those that aren't embedded. It needs an [Index], otherwise the error is
	// [ErrNoIndex].
	Text string

	// Exact leaves out the namespaces below the prefix, which must not be empty
	// then.
	Exact bool

	Limit  int // 0: [DefaultLimit]
	Offset int // how many of the first to skip

	Refresh Refresh // of the items returned
}

// NamespaceQuery says which namespaces are listed. The zero value means the first
// hundred of all.
type NamespaceQuery struct {
	// Prefix and Suffix are labels that the namespace begins and ends with. The
	// label "*" stands for any one label.
	Prefix, Suffix []string

	// MaxDepth cuts longer namespaces to as many labels, each listed once; 0
	// means whole ones.
	MaxDepth int

	Limit  int // 0: [DefaultNamespacesLimit]
	Offset int // how many of the first to skip
}
