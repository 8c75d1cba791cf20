package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/cmd/superstep/internal/digest"
	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/graph"
)

// digestState is the state of the graph "digest".
type digestState struct {
	Folder   string    `json:"folder"` // its absolute path
	Out      string    `json:"out"`    // absolute path of the report
	MaxFiles int       `json:"max_files"`
	Started  time.Time `json:"started"`
	Model    string    `json:"model,omitempty"` // that writes summaries; empty: none

	Files   graph.List[sourceFile]      `json:"files"`   // all that were found, sorted
	Planned int                         `json:"planned"` // of Files, those that were sent to be analysed
	Docs    graph.List[digest.Document] `json:"docs"`    // one for each file that is done

	Draft   graph.Value[string] `json:"draft"`
	Outcome string              `json:"outcome"` // "written" or "declined"

	Replace string             `json:"replace,omitempty"` // sum of a file in the report's place that may be replaced
	Earlier graph.List[string] `json:"earlier"`           // sums of the reports of this folder before --fresh
}

// sourceFile is a file as it was when the folder was listed.
type sourceFile struct {
	digest.Source
	Modified time.Time `json:"modified,omitzero"`
}

// The outcomes.
const (
	outcomeWritten  = "written"
	outcomeDeclined = "declined"
)

// The nodes.
const (
	nodeList    = "list"
	nodeCollect = "collect"
	nodeAnalyse = "analyse"
	nodeDraft   = "draft"
	nodeApprove = "approve"
	nodeWrite   = "write"
)

// digestWave is how many files are analysed in one superstep. A superstep
// commits at once, so this bounds the size of a record, and how long a run goes
// on after it was told to stop.
const digestWave = 128

// digestGraph lists a folder, analyses its files in parallel, one task a file
// and a wave of them at a time, drafts a report, asks whether to write it, and
// writes it.
func digestGraph() *graph.Graph[digestState] {
	b := graph.New[digestState]("digest")
	b.AddNode(nodeList, listFolder, graph.Describe("list", "Finds the text files of the folder."))
	analyse := graph.AddTask(b, nodeAnalyse, analyseFile, graph.Describe("analyse", "Reads one file: words, headings, links, keywords, signature."))
	b.AddCommandNode(nodeCollect, func(ctx context.Context, s *digestState) (graph.Command, error) {
		track(ctx).total.Store(int64(s.Files.Len()))
		var wave []graph.Send
		for len(wave) < digestWave && s.Planned < s.Files.Len() {
			if f := s.Files.At(s.Planned); f.Skip != "" {
				s.Docs.Add(digest.Document{ID: f.ID, Size: f.Size, Skip: f.Skip, Detail: f.Detail})
				track(ctx).done.Add(1)
			} else {
				wave = append(wave, analyse.Send(s.Planned))
			}
			s.Planned++
		}
		if len(wave) == 0 {
			return graph.Goto(nodeDraft), nil
		}
		return graph.Dispatch(wave...), nil
	}, graph.Destinations(nodeAnalyse, nodeDraft), graph.Describe("collect", "Joins the results, and sends out the next files."))
	b.AddNode(nodeDraft, draftReport, graph.Describe("draft", "Compares the documents and drafts the report."))
	b.AddCommandNode(nodeApprove, approveReport, graph.Destinations(nodeWrite, graph.End), graph.Describe("approve", "Asks a person whether to write the report."))
	b.AddNode(nodeWrite, writeReport, graph.Describe("write", "Writes the report to its file."))
	b.AddEdge(graph.Start, nodeList)
	b.AddEdge(nodeList, nodeCollect)
	b.AddEdge(nodeAnalyse, nodeCollect)
	b.AddEdge(nodeDraft, nodeApprove)
	b.AddEdge(nodeWrite, graph.End)
	// The number of waves is bounded by that of the files.
	return b.MustCompile(graph.MaxSteps(1<<20), graph.ProvideDeps(func(context.Context) (*tracker, error) { return new(tracker), nil }))
}

func listFolder(ctx context.Context, s *digestState) error {
	found, err := digest.Find(ctx, s.Folder, digest.FindOptions{MaxFiles: s.MaxFiles})
	if err != nil {
		return err
	}
	files := make([]sourceFile, 0, len(found))
	for _, src := range found {
		path := filepath.Join(s.Folder, filepath.FromSlash(src.ID))
		if path == s.Out {
			continue // the report of last time
		}
		f := sourceFile{Source: src}
		f.Root = "" // the same for all
		if info, err := lstat(path); err == nil {
			f.Modified = info.ModTime()
		}
		files = append(files, f)
	}
	s.Files.Add(files...)
	return nil
}

// analyseFile reads one file. What was learned of it is stored before Once
// returns, so that from then on the file is not read again, whatever happens to
// the process: only files that are being read when it dies are read again.
func analyseFile(ctx context.Context, s *digestState, i int) error {
	if i < 0 || i >= s.Files.Len() {
		return fmt.Errorf("there is no file number %d", i)
	}
	f := s.Files.At(i)
	f.Root = s.Folder
	doc, err := graph.Once(ctx, "read", func(ctx context.Context, _ string) (digest.Document, error) {
		if err := track(ctx).reading(f.ID); err != nil {
			return digest.Document{}, err
		}
		return digest.Analyse(ctx, f.Source)
	})
	if err != nil {
		return err
	}
	if s.Model != "" && doc.Skip == "" && doc.Words > 0 {
		if err := addSummary(ctx, s.Model, f.Source, &doc); err != nil {
			return err
		}
	}
	s.Docs.Add(doc)
	track(ctx).done.Add(1)
	return nil
}

func draftReport(_ context.Context, s *digestState) error {
	docs := make([]digest.Document, 0, s.Docs.Len())
	for _, d := range s.Docs.All() {
		docs = append(docs, d)
	}
	corpus := digest.NewCorpus(docs, digest.CorpusOptions{})
	s.Draft.Set(digest.Report(corpus, digest.ReportOptions{
		Title: "Digest of " + filepath.Base(s.Folder), Folder: s.Folder, Date: s.Started, Model: s.Model,
	}))
	return nil
}

func approveReport(ctx context.Context, s *digestState) (graph.Command, error) {
	ok, err := graph.Interrupt[bool](ctx, "approve", fmt.Sprintf("Write the report on %s to %s?", count(s.Docs.Len(), "file"), s.Out))
	switch {
	case err != nil:
		return graph.Command{}, err
	case !ok:
		s.Outcome = outcomeDeclined
		return graph.Goto(graph.End), nil
	}
	return graph.Goto(nodeWrite), nil
}

// writeReport writes all of the report or nothing. To write it twice, after the
// process was killed in between, does no harm.
func writeReport(_ context.Context, s *digestState) error {
	foreign, err := s.foreign()
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if foreign != "" {
		return &foreignError{s.Out}
	}
	if err := draw.WriteFile(s.Out, []byte(s.Draft.Get())); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	s.Outcome = outcomeWritten
	return nil
}

// foreign returns the sum of the file in the report's place, if there is one that
// is not a report of this folder and may not be replaced.
func (s *digestState) foreign() (string, error) {
	data, err := os.ReadFile(s.Out)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	is := sum(data)
	if is == s.Replace || is == sum([]byte(s.Draft.Get())) || slices.Contains(s.Earlier.Slice(), is) {
		return "", nil
	}
	return is, nil
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// foreignError says that something else has written a file where the report goes.
type foreignError struct{ path string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s is there already, and this digest did not write it", e.path)
}

// tracker follows a run from outside. It is a dependency of the graph, so it is
// not stored.
type tracker struct {
	total, done atomic.Int64 // files

	mu    sync.Mutex
	trace io.Writer // gets the name of each file as it is read; may be nil

	author author
}

// track returns the run's tracker.
func track(ctx context.Context) *tracker {
	t, err := graph.Deps[*tracker](ctx)
	if err != nil {
		return new(tracker) // a node called by itself, in a test
	}
	return t
}

// reading notes that a file is about to be read.
func (t *tracker) reading(id string) error {
	if t.trace == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := fmt.Fprintf(t.trace, "%s\n", id)
	return err
}
