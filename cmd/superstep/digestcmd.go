package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/cmd/superstep/internal/digest"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/model/models"
)

func lstat(path string) (fs.FileInfo, error) { return os.Lstat(path) }

// digester is one call of "demo digest".
type digester struct {
	out, trace      string
	model           string // that writes summaries; empty: none
	fresh, yes      bool
	force           bool // replace a file that the digest did not write
	maxFiles, tasks int

	g      *graph.Graph[digestState]
	c      *console.Console
	store  checkpoint.Store
	thread string

	replace string   // sum of the file that a person said to replace
	earlier []string // sums of reports of the folder that --fresh forgets

	folder string // absolute, without symbolic links
	shown  string // as given
	json   bool
	again  string // the command that goes on
	track  *tracker
}

func digestCommand() *cobra.Command {
	d := &digester{}
	cmd := &cobra.Command{
		Use: "digest PATH", Short: "Digest a folder of text files into a report, with your approval",
		Long: `Digest a folder of text files into a report in Markdown: headings, word counts,
keywords, near-duplicates and broken links.

Every file is a task of its own, and what was learned of it is recorded as soon as
it was read. Stop it, or kill it, at any moment: the same command goes on where it
was and reads no file again whose result was recorded. The draft is shown before
it is written; without a terminal, answer with --yes.

With a model (--model or SUPERSTEP_MODEL) every file gets a summary of two or three
sentences; for that the first 24,000 bytes of its text are sent to the model. A
summary that was recorded is not asked for again either. A file whose summary
fails is reported without one. --model '' has no summaries in any case, and
--model demo is a demonstration that needs no key.

The report goes to FOLDER-digest.md in the current folder, or beside PATH if the
current folder is within it. A file there that is no report of this digest is
replaced only if you say so.`,
		Example: "  superstep demo digest ./docs\n  superstep demo digest /usr/share/doc --yes --out /tmp/report.md\n  superstep demo digest ./docs --model ollama:llama3.2",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Hint(cli.Usage("name one folder of text files"), "for example: superstep demo digest ./docs")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error { return d.run(cmd, args[0]) },
	}
	modelFlag(cmd, &d.model, "the model that writes summaries (default $"+models.Variable+", or none)")
	cmd.Flags().StringVarP(&d.out, "out", "o", "", "the file to write the report to")
	cmd.Flags().BoolVar(&d.fresh, "fresh", false, "forget what was done before and start anew")
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false, "approve the report without asking")
	cmd.Flags().BoolVar(&d.force, "force", false, "replace the file in the report's place even if this digest did not write it")
	cmd.Flags().IntVar(&d.maxFiles, "max-files", digest.DefaultMaxFiles, "how many files the folder may have")
	cmd.Flags().IntVar(&d.tasks, "concurrency", 2*runtime.GOMAXPROCS(0), "how many files are read at a time")
	cmd.Flags().StringVar(&d.trace, "trace", "", "append the name of each file to this file just before it is read")
	return cmd
}

func (d *digester) run(cmd *cobra.Command, path string) error {
	ctx := cmd.Context()
	d.c = console.New(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	d.json, _ = cmd.Flags().GetBool("json")
	d.g = digestGraph()
	d.shown = path
	if d.maxFiles <= 0 || d.tasks <= 0 {
		return cli.Usage("--max-files and --concurrency must be positive")
	}
	if !cmd.Flags().Changed("model") {
		d.model = os.Getenv(models.Variable)
	}
	if d.model != "" {
		if err := checkModel(d.model); err != nil {
			return err
		}
	}
	if err := d.locate(ctx, path); err != nil {
		return err
	}
	url, _ := cmd.Flags().GetString("store")
	d.again = "superstep demo digest " + shellWord(path)
	if cmd.Flags().Changed("model") {
		d.again += " --model " + shellWord(d.model)
	}
	if url == "" {
		url = "sqlite:superstep.db"
	} else {
		d.again += " --store " + shellWord(url)
	}
	store, err := cli.OpenURL(ctx, url)
	if err != nil {
		return err
	}
	defer store.Close()
	d.store, d.thread = store, "digest:"+d.folder
	d.track = &tracker{}
	if d.trace != "" {
		f, err := os.OpenFile(d.trace, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
		if err != nil {
			return fmt.Errorf("--trace: %w", err)
		}
		defer f.Close()
		d.track.trace = f
	}
	if d.fresh {
		if d.earlier, err = d.reports(ctx); err != nil {
			return err
		}
		if _, _, err := d.begin(); err != nil { // before anything is forgotten for it
			return err
		}
		if err := d.forget(ctx); err != nil {
			return err
		}
	}
	return d.work(ctx)
}

// forget removes the thread, unless a run works on it.
func (d *digester) forget(ctx context.Context) error {
	return d.g.Thread(d.thread, graph.WithCheckpointer(d.store)).Delete(ctx)
}

// begin says where the report of a digest goes that is begun anew, and what it
// replaces there.
func (d *digester) begin() (out, replace string, err error) {
	if out = d.out; out == "" {
		if out, err = defaultOut(d.folder); err != nil {
			return "", "", err
		}
		if err := checkOut(out); err != nil {
			return "", "", err
		}
	}
	begun := &digestState{Out: out}
	begun.Earlier.Add(d.earlier...)
	replace, err = d.mayWrite(begun)
	return out, replace, err
}

// earlierReports is of how many reports before --fresh the sums are kept.
const earlierReports = 16

// reports returns the sums of the reports that the thread knows to be its own. Of
// a thread that cannot be read there are none: --fresh is the way out of that.
func (d *digester) reports(ctx context.Context) ([]string, error) {
	snap, err := d.g.Thread(d.thread, graph.WithCheckpointer(d.store)).State(ctx)
	if err != nil {
		return nil, ctx.Err()
	}
	sums := snap.State.Earlier.Slice()
	if draft := snap.State.Draft.Get(); draft != "" {
		sums = append(sums, sum([]byte(draft)))
	}
	return sums[max(0, len(sums)-earlierReports):], nil
}

// locate finds the folder and the place of the report.
func (d *digester) locate(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if path == "" || err != nil || !info.IsDir() {
		_, err := digest.Find(ctx, path, digest.FindOptions{}) // says best what is wrong
		if err == nil {
			err = fmt.Errorf("%s is not a folder", path)
		}
		return sayMissing(err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if d.folder, err = filepath.EvalSymlinks(abs); err != nil {
		return err
	}
	if d.out == "" {
		return nil
	}
	if d.out, err = filepath.Abs(d.out); err != nil {
		return err
	}
	return checkOut(d.out)
}

// checkOut reports whether a report can't be written there, before the work is
// done for it.
func checkOut(out string) error {
	dir := filepath.Dir(out)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return cli.Hint(cli.Usage("the report cannot be written to %s: there is no folder %s", out, dir), "make the folder, or choose another place with --out")
	}
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return cli.Hint(cli.Usage("the report cannot be written to %s: it is a folder", out), "name a file with --out, such as %s", shellWord(filepath.Join(out, "digest.md")))
	}
	return nil
}

// defaultOut is where a report goes that was given no place: not into the
// folder itself.
func defaultOut(folder string) (string, error) {
	name := filepath.Base(folder)
	if name == string(filepath.Separator) || name == "." {
		name = "root"
	}
	name += "-digest.md"
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		if rel, err := filepath.Rel(folder, real); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			dir = filepath.Dir(folder)
		}
	}
	return filepath.Join(dir, name), nil
}

// sayMissing turns an error about the folder into one without the path that
// the error took through the graph.
func sayMissing(err error) error {
	var e *digest.Error
	if !errors.As(err, &e) {
		return err
	}
	short := *e
	short.Fix = ""
	return cli.Hint(errors.New(strings.TrimPrefix(short.Error(), "digest: ")), "%s", e.Fix)
}

// work brings the digest from wherever it stands to its end.
func (d *digester) work(ctx context.Context) error {
	ctx, drain, end := console.Stops(ctx, func(second bool) {
		if second {
			d.c.Notef("Stopping now.")
		} else {
			d.c.Notef("Stopping at the end of this step. Press Ctrl-C again to stop at once.")
		}
	})
	defer end()
	t := d.g.Thread(d.thread, graph.WithCheckpointer(d.store), graph.Drain(drain))
	snap, err := t.State(ctx)
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	input, start, err := d.plan(snap)
	if err != nil {
		return err
	}
	if input != nil || len(snap.Interrupts) == 0 && !snap.Done() {
		show := d.watch()
		req := t.Input(input)
		if start != "" {
			req = t.Restart(input, graph.Goto(start))
		}
		snap, err = t.Invoke(ctx, req, graph.Concurrency(d.tasks), graph.UseDeps(d.track), graph.Observe(show))
		show.end()
		if err != nil {
			return d.failed(ctx, snap, err)
		}
	}
	if n, why := missingSummaries(&snap.State); n > 0 {
		d.c.Notef("%s without a summary: %s. The report says so; --fresh asks again.", count(n, "file"), console.Clean(why))
	}
	if len(snap.Interrupts) > 0 {
		yes, err := d.approve(ctx, drain, snap)
		if err != nil {
			return err
		}
		replace := func(s *digestState) error {
			if d.replace != "" {
				s.Replace = d.replace
			}
			return nil
		}
		snap, err = t.Invoke(ctx, t.Answer(yes, replace))
		if err != nil {
			return d.failed(ctx, snap, err)
		}
	}
	return d.done(&snap.State)
}

// plan decides what a thread needs to go on: an input, and where to start if
// that isn't where it was. It says what it found.
func (d *digester) plan(snap *graph.Snapshot[digestState]) (input func(*digestState) error, start string, err error) {
	if snap == nil {
		out, replace, err := d.begin()
		if err != nil {
			return nil, "", err
		}
		return func(s *digestState) error {
			s.Folder, s.Out, s.MaxFiles, s.Started = d.folder, out, d.maxFiles, time.Now().UTC().Truncate(time.Second)
			s.Model = d.model
			s.Earlier.Add(d.earlier...)
			s.Replace = replace
			return nil
		}, "", nil
	}
	s := &snap.State
	d.track.total.Store(int64(s.Files.Len()))
	d.track.done.Store(int64(s.Docs.Len()))
	if d.out == "" {
		d.out = s.Out
	}
	if d.model != s.Model {
		with := "without summaries"
		if s.Model != "" {
			with = "with summaries by " + s.Model
		}
		d.c.Notef("It was begun %s and stays so; --fresh starts anew.", console.Clean(with))
		d.model = s.Model
	}
	moved := d.out != s.Out
	there := *s
	there.Out = d.out
	replace := ""
	if !snap.Done() || moved || s.Outcome == outcomeDeclined {
		if replace, err = d.mayWrite(&there); err != nil {
			return nil, "", err
		}
	}
	move := func(s *digestState) error {
		if s.Out = d.out; replace != "" {
			s.Replace = replace
		}
		return nil
	}
	changed := d.changes(s)
	if !snap.Done() {
		where := "was begun"
		if s.Files.Len() > 0 {
			where = fmt.Sprintf("has %s of %s", thousands(s.Docs.Len()), count(s.Files.Len(), "file"))
		}
		d.c.Notef("Going on: the digest of %s, started %s, %s.", d.shown, s.Started.Local().Format("2006-01-02 15:04:05"), where)
		if changed != "" {
			d.c.Notef("%s What was read before stays as it was; --fresh starts anew.", changed)
		}
		if moved || replace != "" {
			return move, "", nil
		}
		return nil, "", nil
	}
	_, gone := os.Stat(s.Out)
	switch {
	case s.Outcome == outcomeDeclined:
		d.c.Notef("Asking again: the report was declined. (--fresh reads everything anew.)")
		start = nodeApprove
	case moved:
		start = nodeApprove
	case gone != nil:
		d.c.Notef("The report was written, but is not at %s any more.", s.Out)
		start = nodeApprove
	default:
		if changed == "" {
			changed = "No file that it covers has changed since."
		}
		d.c.Notef("The digest of %s is done. %s\n--fresh starts anew.", d.shown, changed)
		return nil, "", nil
	}
	if changed != "" {
		d.c.Notef("%s --fresh starts anew.", changed)
	}
	return func(s *digestState) error {
		s.Outcome = ""
		return move(s)
	}, start, nil
}

// mayWrite refuses to go on to a report whose place has a file that this digest
// did not write, before the work is done for it. Nothing is refused where a person
// is asked first, or where only the draft is shown. With --force it returns the sum
// of that file.
func (d *digester) mayWrite(s *digestState) (replace string, err error) {
	foreign, err := s.foreign()
	if err != nil || foreign == "" || d.force {
		return foreign, err
	}
	if d.yes {
		return "", sayForeign(&foreignError{s.Out})
	}
	return "", nil
}

// sayForeign adds to an error about a file in the report's place what can be done.
func sayForeign(err error) error {
	var foreign *foreignError
	if !errors.As(err, &foreign) {
		return err
	}
	return cli.Hint(foreign, "choose another place with --out, or move the file away; --force replaces it")
}

// changes says which files have changed since the folder was listed. It looks at
// sizes and times, and reads nothing.
func (d *digester) changes(s *digestState) string {
	var changed []string
	for _, f := range s.Files.All() {
		if f.Skip != "" {
			continue
		}
		info, err := lstat(filepath.Join(s.Folder, filepath.FromSlash(f.ID)))
		if err != nil || info.Size() != f.Size || !info.ModTime().Equal(f.Modified) {
			changed = append(changed, f.ID)
		}
	}
	if len(changed) == 0 {
		return ""
	}
	n := len(changed)
	verb := "have"
	if n == 1 {
		verb = "has"
	}
	if n > 3 {
		changed = append(changed[:3], "…")
	}
	return fmt.Sprintf("%s %s changed since the folder was listed (%s).", count(n, "file"), verb, console.Clean(strings.Join(changed, ", ")))
}

// failed says what became of a run that did not get to its end.
func (d *digester) failed(ctx context.Context, snap *graph.Snapshot[digestState], err error) error {
	s := &snap.State
	code := cli.Code(err)
	if code == cli.ExitStopped || ctx.Err() != nil {
		d.c.Notef("Stopped with %s of %s done. To go on:\n  %s", thousands(s.Docs.Len()), count(s.Files.Len(), "file"), d.again)
		return cli.ExitCode(cli.ExitStopped)
	}
	var e *digest.Error
	if errors.As(err, &e) && s.Files.Len() == 0 {
		// Nothing was found: there is nothing to go on with either.
		return errors.Join(sayMissing(err), d.forget(context.WithoutCancel(ctx)))
	}
	if code == cli.ExitBusy {
		return err
	}
	var foreign *foreignError
	if errors.As(err, &foreign) {
		return sayForeign(err)
	}
	return cli.Hint(sayMissing(err), "%s of %s are done and stay so. When the cause is mended, go on with:\n  %s", thousands(s.Docs.Len()), count(s.Files.Len(), "file"), d.again)
}

// draftLines is how much of a draft is shown at first.
const draftLines = 40

// approve shows the draft and asks whether to write it.
func (d *digester) approve(ctx context.Context, drain <-chan struct{}, snap *graph.Snapshot[digestState]) (bool, error) {
	s := &snap.State
	if d.yes {
		return true, nil
	}
	foreign, err := s.foreign()
	if err != nil {
		return false, err
	}
	draft := s.Draft.Get()
	if !d.c.CanAsk() {
		if d.json {
			if err := d.print(s, "interrupted", draft); err != nil {
				return false, err
			}
		} else {
			if d.c.OutTerminal() {
				draft = console.Clean(draft)
			}
			fmt.Fprint(d.c.Out, draft)
		}
		again := d.again + " --yes"
		if foreign != "" {
			d.c.Notef("\n%s. --force replaces it, --out names another place.", &foreignError{s.Out})
			again += " --force"
		}
		d.c.Notef("\nThis is the draft. To have it written to %s:\n  %s", s.Out, again)
		return false, cli.ExitCode(cli.ExitInterrupted)
	}
	lines := strings.Split(strings.TrimRight(console.Clean(draft), "\n"), "\n")
	first := min(len(lines), max(draftLines, d.c.Height()-4))
	d.c.Notef("\n%s", strings.Join(lines[:first], "\n"))
	ask := fmt.Sprintf("Write this report to %s?", s.Out)
	if foreign != "" {
		ask = fmt.Sprintf("%s: replace it with this report?", &foreignError{s.Out})
	}
	question := fmt.Sprintf("\n%s [y/n] ", ask)
	if rest := len(lines) - first; rest > 0 {
		d.c.Notef("… %s", count(rest, "more line"))
		question = fmt.Sprintf("\n%s [y/n, v to view the rest] ", ask)
	}
	ctx, cancel := console.Until(ctx, drain)
	defer cancel()
	for {
		text, err := d.c.Ask(ctx, question)
		if errors.Is(err, console.ErrStopped) || errors.Is(err, console.ErrNoAnswer) {
			d.c.Notef("The draft waits. To be asked again:\n  %s", d.again)
			return false, cli.ExitCode(cli.ExitInterrupted)
		}
		if err != nil {
			return false, err
		}
		if yes, ok := console.YesNo(text); ok {
			if yes {
				d.replace = foreign
			}
			return yes, nil
		}
		if strings.EqualFold(text, "v") || strings.EqualFold(text, "view") {
			d.c.Notef("%s", strings.Join(lines[first:], "\n"))
			continue
		}
		d.c.Notef("Please answer y or n.")
	}
}

// done says how it ended.
func (d *digester) done(s *digestState) error {
	if d.json {
		return d.print(s, s.Outcome, "")
	}
	if s.Outcome == outcomeDeclined {
		d.c.Notef("Nothing was written. The same command asks again, --fresh starts anew.")
		return nil
	}
	fmt.Fprintln(d.c.Out, s.Out)
	return nil
}

func (d *digester) print(s *digestState, status, draft string) error {
	skipped := 0
	for _, doc := range s.Docs.All() {
		if doc.Skip != "" {
			skipped++
		}
	}
	e := json.NewEncoder(d.c.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Status  string `json:"status"`
		Thread  string `json:"thread"`
		Folder  string `json:"folder"`
		Report  string `json:"report"`
		Files   int    `json:"files"`
		Skipped int    `json:"skipped"`
		Draft   string `json:"draft,omitempty"`
	}{status, d.thread, s.Folder, s.Out, s.Docs.Len(), skipped, draft})
}

// watcher shows how far a digest is: a line that changes on a terminal, else a
// line for each tenth.
type watcher struct {
	d     *digester
	mu    sync.Mutex
	node  string // that runs
	began time.Time
	from  int64 // files done when this run began to read
	tenth int64
	stop  chan struct{}
	over  chan struct{}
}

func (d *digester) watch() *watcher {
	w := &watcher{d: d, stop: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(w.over)
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-t.C:
				w.mu.Lock()
				w.paint()
				w.mu.Unlock()
			}
		}
	}()
	return w
}

// OnNodeEnter implements [graph.Observer].
func (w *watcher) OnNodeEnter(ev graph.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.node == ev.Node || ev.Node == nodeCollect && w.node == nodeAnalyse {
		return
	}
	w.node = ev.Node
	if ev.Node == nodeAnalyse && w.began.IsZero() {
		w.began, w.from = ev.Time, w.d.track.done.Load()
		if total := w.d.track.total.Load(); total > 0 {
			w.tenth = w.from * 10 / total
		}
	}
	if text := w.stage(); text != "" && !w.d.c.ErrTerminal() {
		w.d.c.Notef("%s", text)
	}
	w.paint()
}

// OnNodeExit implements [graph.Observer].
func (w *watcher) OnNodeExit(graph.Event) {}

// OnError implements [graph.Observer].
func (w *watcher) OnError(graph.Event) {}

// OnInterrupt implements [graph.Observer].
func (*watcher) OnInterrupt(graph.Event) {}

// OnCheckpointSaved implements [graph.Observer].
func (w *watcher) OnCheckpointSaved(graph.Event) {}

var stages = map[string]string{
	nodeList: "Listing the files", nodeAnalyse: "Reading the files", nodeDraft: "Comparing the documents", nodeWrite: "Writing the report",
}

// stage says what is going on.
func (w *watcher) stage() string {
	if w.node == nodeAnalyse && w.d.model != "" {
		return "Reading and summarising the files"
	}
	return stages[w.node]
}

func (w *watcher) paint() {
	c := w.d.c
	text := w.stage()
	if w.node != nodeAnalyse {
		if text != "" {
			text += " …"
		}
		c.Status(text)
		return
	}
	done, total := w.d.track.done.Load(), w.d.track.total.Load()
	if total == 0 {
		return
	}
	if !c.ErrTerminal() {
		if tenth := done * 10 / total; tenth > w.tenth {
			w.tenth = tenth
			c.Notef("%s of %s read", thousands(int(done)), count(int(total), "file"))
		}
		return
	}
	text = fmt.Sprintf("%s: %s of %s (%d%%)", text, thousands(int(done)), thousands(int(total)), done*100/total)
	if took := time.Since(w.began); took > time.Second && done > w.from {
		rate := float64(done-w.from) / took.Seconds()
		if rate >= 1 {
			text += fmt.Sprintf(", %.0f a second", rate)
		}
		if left := time.Duration(float64(total-done) / rate * float64(time.Second)); left > time.Second {
			text += ", about " + left.Round(time.Second).String() + " left"
		}
	}
	c.Status(text)
}

// end takes the progress line off.
func (w *watcher) end() {
	close(w.stop)
	<-w.over
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paint()
	w.d.c.Status("")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// shellWord quotes a word for a shell.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,@%+", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
