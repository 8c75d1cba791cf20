package client_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/client"
)

func TestAThreadIsExportedImportedAndReplayed(t *testing.T) {
	ctx := t.Context()
	c := open(t, serve(t, nil, nil, weatherman(t)))
	thread, err := c.CreateThread(ctx, client.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ExportThread(ctx, thread.ID, new(bytes.Buffer)); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("of a thread without a checkpoint: %v", err)
	}
	if _, err := c.ReplayThread(ctx, thread.ID, client.ReplayOptions{}); !errors.Is(err, client.ErrConflict) {
		t.Errorf("of a thread without a graph: %v", err)
	}
	if _, err := c.Wait(ctx, thread.ID, client.RunRequest{Assistant: "booking", Input: map[string]any{"city": "Bonn"}}); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := c.ExportThread(ctx, thread.ID, &file); err != nil {
		t.Fatal(err)
	}
	if rec, err := recording.Read(bytes.NewReader(file.Bytes())); err != nil || string(rec.Header.Thread) != thread.ID {
		t.Errorf("exported: %+v, %v", rec, err)
	}
	other, err := c.ImportThread(ctx, bytes.NewReader(file.Bytes()), "")
	if err != nil {
		t.Fatal(err)
	}
	if other.ID == thread.ID || other.GraphID() != "booking" || other.Status != client.ThreadInterrupted || len(other.Interrupts) != 1 {
		t.Errorf("imported: %+v", other)
	}
	if _, err := c.ImportThread(ctx, bytes.NewReader(file.Bytes()), "weatherman"); err == nil || !strings.Contains(err.Error(), "can't be read") {
		t.Errorf("as one of another graph: %v", err)
	}
	if _, err := c.ImportThread(ctx, strings.NewReader("hello"), ""); err == nil || !strings.Contains(err.Error(), "not a recording") {
		t.Errorf("something else: %v", err)
	}
	if got, err := c.ReplayThread(ctx, other.ID, client.ReplayOptions{}); err != nil || len(got.Differences) != 0 || got.Supersteps != 1 || got.More || got.Failure != nil {
		t.Errorf("replayed: %+v, %v", got, err)
	}
	if _, err := c.ReplayThread(ctx, other.ID, client.ReplayOptions{IgnoreFields: []string{"town"}}); err == nil || !strings.Contains(err.Error(), `no field "town"`) {
		t.Errorf("without a field that there isn't: %v", err)
	}

	// Where a model was asked whose answers weren't recorded the thread isn't as it was.
	if thread, err = c.CreateThread(ctx, client.NewThread{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(ctx, thread.ID, client.RunRequest{Assistant: "weatherman", Input: map[string]any{"user_input": "How is it?"}}); err != nil {
		t.Fatal(err)
	}
	got, err := c.ReplayThread(ctx, thread.ID, client.ReplayOptions{Limit: 1})
	if err != nil || len(got.Differences) != 1 || !got.More {
		t.Fatalf("replayed: %+v, %v", got, err)
	}
	d := got.Differences[0]
	if state, err := c.StateAt(ctx, thread.ID, client.Checkpoint{ID: d.CheckpointID}, false); err != nil || d.Kind == "" || d.Node == "" || d.Want == d.Got {
		t.Errorf("%+v at %v, %v", d, state, err)
	}
}

// What can't be written is the caller's error, and what can't be read the connection's.
func TestAnExportThatIsCutOffIsAnError(t *testing.T) {
	c := open(t, answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("{}\n"))
	}))
	if err := c.ExportThread(t.Context(), "t", new(bytes.Buffer)); !errors.As(err, new(*client.UnreachableError)) {
		t.Errorf("an answer that is cut off: %v", err)
	}
	full := errors.New("the disk is full")
	c = open(t, answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}\n")) }))
	if err := c.ExportThread(t.Context(), "t", failing{full}); !errors.Is(err, full) || errors.As(err, new(*client.UnreachableError)) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
