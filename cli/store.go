package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/stores"
)

// storeURL returns what --store says, or the default.
func (a *app) storeURL() string {
	if a.storeFlag != "" {
		return a.storeFlag
	}
	return a.url
}

// ownStore reports whether threads are kept in the program's own store: see [UseStore].
func (a *app) ownStore() bool { return a.storeFlag == "" && a.store != nil }

// storeName is storeURL for people: without passwords.
func (a *app) storeName() string {
	if a.ownStore() {
		return "the program's own store"
	}
	return stores.Redact(a.storeURL())
}

// errNoStore says that a store that is only to be read isn't there.
var errNoStore = errors.New("there is no store yet")

// open opens the store for the command. A store that is not there is made if create is set;
// else it is an errNoStore.
func (a *app) open(ctx context.Context, create bool) (checkpoint.Store, error) {
	if a.ownStore() {
		return a.store, nil
	}
	store, err := openURL(ctx, a.storeURL(), create, a.openers)
	if errors.Is(err, errNoStore) {
		err = Hint(err, "start a thread (%s run GRAPH), or say where they are kept with --store", a.name)
	}
	if err != nil {
		return nil, err
	}
	a.atClose(store.Close)
	return store, nil
}

// OpenURL opens the store that a URL names, as the flag --store does, and makes
// it if there is none.
func OpenURL(ctx context.Context, url string) (checkpoint.Store, error) {
	return openURL(ctx, url, true, nil)
}

func openURL(ctx context.Context, url string, create bool, openers map[string]func(ctx context.Context, url string) (checkpoint.Store, error)) (checkpoint.Store, error) {
	if scheme, _, ok := strings.Cut(url, ":"); ok && openers[scheme] != nil {
		return openers[scheme](ctx, url)
	}
	c, err := storeConfig(url, create)
	var usage *usageError
	if errors.As(err, &usage) && len(openers) > 0 {
		usage.hint = "--store also takes " + strings.Join(slices.Sorted(maps.Keys(openers)), ":…, ") + ":…"
	}
	if err != nil {
		return nil, err
	}
	// What a killed process left of its last line was never acknowledged.
	c.File.Recover = true
	return c.Open(ctx)
}

// storeConfig reads a URL. A folder that exists may stand alone.
func storeConfig(url string, create bool) (stores.Config, error) {
	c, err := stores.Parse(url)
	var unknown *stores.UnknownBackendError
	if errors.As(err, &unknown) {
		if info, bad := os.Stat(url); bad == nil && info.IsDir() {
			c, err = stores.Config{Backend: stores.File, Path: url}, nil
		}
	}
	if err != nil {
		return c, &usageError{err, ""}
	}
	if !create && c.Path != "" && c.Path != ":memory:" {
		if _, err := os.Stat(c.Path); errors.Is(err, fs.ErrNotExist) {
			if c.Backend == stores.File {
				return c, fmt.Errorf("%w in %s", errNoStore, c.Path)
			}
			return c, fmt.Errorf("%w at %s", errNoStore, c.Path)
		}
	}
	return c, nil
}

// lister returns the store as one that can list threads.
func (a *app) lister(store checkpoint.Store) (checkpoint.Lister, error) {
	if l, ok := store.(checkpoint.Lister); ok {
		return l, nil
	}
	return nil, fmt.Errorf("the store %s cannot list threads", a.storeName())
}

// head returns the newest record of a thread, or an error that names the
// nearest threads.
func (a *app) head(ctx context.Context, store checkpoint.Store, thread string) (*checkpoint.Record, error) {
	rec, _, err := store.Head(ctx, checkpoint.Log{Thread: checkpoint.ThreadID(thread)})
	if missing(err) {
		_, err = known(ctx, &local{a: a, store: store}, thread)
	}
	return rec, err
}
