// Blobs keeps large data out of the state: the state holds a reference, the
// data lies in a store of its own.
//
// Everything in the state is recorded whenever it changes, read when the thread
// is loaded and copied when it is forked. A scanned page or an audio file has no
// business there. Here it goes into a directory under the hash of its content:
// writing it twice is writing it once, so that a node which runs again after a
// crash does no harm, and what a reference means never changes, so that time
// travel sees what was there. Nodes get the directory as a dependency, which is
// never recorded.
//
//	go run ./examples/blobs
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
)

// Ref names a blob: the SHA-256 of its content.
type Ref string

// Blobs is a directory of files named after their content.
type Blobs struct{ Dir string }

// Put stores data and returns its reference.
func (b Blobs) Put(data []byte) (Ref, error) {
	sum := sha256.Sum256(data)
	ref := Ref(hex.EncodeToString(sum[:]))
	// Written beside and renamed: a file with that name is always whole.
	f, err := os.CreateTemp(b.Dir, "new-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return ref, os.Rename(f.Name(), filepath.Join(b.Dir, string(ref)))
}

// Get returns what a reference refers to.
func (b Blobs) Get(ref Ref) ([]byte, error) {
	return os.ReadFile(filepath.Join(b.Dir, string(ref)))
}

// State is a document on its way to a summary.
type State struct {
	Scan  Ref // megabytes, elsewhere
	Pages int
}

func scan(ctx context.Context, s *State) error {
	blobs, err := graph.Deps[Blobs](ctx)
	if err != nil {
		return err
	}
	document := strings.Repeat("a page of text\f", 400_000) // 6 MB
	s.Scan, err = blobs.Put([]byte(document))
	return err
}

func count(ctx context.Context, s *State) error {
	blobs, err := graph.Deps[Blobs](ctx)
	if err != nil {
		return err
	}
	document, err := blobs.Get(s.Scan)
	if err != nil {
		return err
	}
	s.Pages = strings.Count(string(document), "\f")
	return nil
}

func main() {
	dir, err := os.MkdirTemp("", "blobs-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store := checkpoint.NewMemory()

	b := graph.New[State]("blobs")
	b.AddNode("scan", scan)
	b.AddNode("count", count)
	b.AddSequence(graph.Start, "scan", "count", graph.End)
	g, err := b.Compile(
		graph.WithCheckpointer(store),
		graph.ProvideDeps(func(context.Context) (Blobs, error) { return Blobs{dir}, nil }),
		graph.WarnSize(100_000), // a warning names the field that should have been a reference
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	t := g.Thread("document-1")
	snap, err := t.Invoke(ctx, t.Input(func(*State) error { return nil }))
	if err != nil {
		log.Fatal(err)
	}
	blob, err := os.Stat(filepath.Join(dir, string(snap.State.Scan)))
	if err != nil {
		log.Fatal(err)
	}
	var stored int64
	for info, err := range store.Logs(ctx, "document-1") {
		if err != nil {
			log.Fatal(err)
		}
		stored += info.Bytes
	}
	fmt.Printf("%d pages in a blob of %d bytes\n", snap.State.Pages, blob.Size())
	fmt.Printf("the thread takes less than a kilobyte: %t\n", stored < 1000)
}
