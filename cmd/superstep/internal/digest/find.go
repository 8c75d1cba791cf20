package digest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits of [Find] where its options name none.
const (
	DefaultMaxBytes = 4 << 20
	DefaultMaxFiles = 5000
)

// FindOptions configures [Find]. The zero value means the defaults.
type FindOptions struct {
	MaxBytes int64 // size above which a file is skipped; 0 means DefaultMaxBytes
	MaxFiles int   // number of files above which Find fails; 0 means DefaultMaxFiles
}

// formats maps the extensions of text files to their formats.
var formats = map[string]Format{
	".md": Markdown, ".markdown": Markdown, ".mdown": Markdown, ".mkd": Markdown, ".mdx": Markdown,
	".txt": Plain, ".text": Plain,
	".rst":  RST,
	".adoc": ASCIIDoc, ".asciidoc": ASCIIDoc,
	".org": Org,
}

// Extensions returns the extensions of the files that [Find] lists, sorted.
func Extensions() []string {
	var out []string
	for e := range formats {
		out = append(out, e)
	}
	slices.Sort(out)
	return out
}

// bareNames are the names of text files that customarily have no extension.
var bareNames = map[string]bool{
	"README": true, "CHANGELOG": true, "CONTRIBUTING": true, "NEWS": true, "NOTES": true,
}

// formatOf tells the format of a file by its name, or "" if it is not a text
// file by its name.
func formatOf(name string) Format {
	base := path.Base(name)
	if bareNames[base] {
		return Plain
	}
	return formats[strings.ToLower(path.Ext(base))]
}

// dependencyFolders hold what others wrote.
var dependencyFolders = map[string]bool{"node_modules": true, "bower_components": true, "vendor": true}

// Find lists the text files below the folder root, sorted by ID. It knows them
// by their extension (see [Extensions]) and looks at the start of each, because
// an extension can lie.
//
// What has the name of a text file but cannot be digested is in the list too,
// with the reason in [Source.Skip]: files above the size limit, binary content,
// files that may not be read. So are folders that may not be read and those
// named node_modules, bower_components or vendor. Hidden files and folders,
// whose name starts with a dot, are passed over without mention. Symbolic links
// below root are not followed, so that no loop can arise, nothing is listed
// twice and nothing outside root is read; those that look like text files are
// listed as skipped. Root itself may be one.
//
// If there is nothing to digest, the error is an [*Error], which says how to
// mend it. Find returns ctx's error as soon as it sees that ctx is done.
func Find(ctx context.Context, root string, opts FindOptions) ([]Source, error) {
	opts.MaxBytes = cmp.Or(opts.MaxBytes, DefaultMaxBytes)
	opts.MaxFiles = cmp.Or(opts.MaxFiles, DefaultMaxFiles)
	dir, abs, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()

	w := walker{root: dir, abs: abs, opts: opts}
	err = fs.WalkDir(dir.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if ctxErr := ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		return w.visit(name, d, err)
	})
	switch {
	case errors.Is(err, errTooMany):
		return nil, &Error{Path: root, Kind: ErrTooMany,
			Fix: fmt.Sprintf("it has more than %d: name a smaller folder or raise the limit", opts.MaxFiles)}
	case w.rootErr != nil:
		return nil, &Error{Path: root, Kind: ErrUnreadable, Fix: fixUnreadable, Err: w.rootErr}
	case err != nil:
		return nil, err
	case w.files == 0:
		return nil, &Error{Path: root, Kind: ErrEmpty, Fix: w.fixEmpty()}
	}
	slices.SortFunc(w.sources, func(a, b Source) int { return cmp.Compare(a.ID, b.ID) })
	return w.sources, nil
}

const fixUnreadable = "check its permissions, or run as a user who may read it"

// openRoot opens the folder at root and returns it with its absolute path.
func openRoot(root string) (*os.Root, string, error) {
	if root == "" {
		return nil, "", &Error{Path: root, Kind: ErrMissing, Fix: "name a folder of text files, such as ./docs"}
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, "", &Error{Path: root, Kind: ErrUnreadable, Fix: "name the folder by its absolute path", Err: err}
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fix := "check the spelling; the path is taken from the current folder"
		if filepath.IsAbs(root) {
			fix = "check the spelling"
		}
		return nil, "", &Error{Path: root, Kind: ErrMissing, Fix: fix}
	case err != nil:
		return nil, "", &Error{Path: root, Kind: ErrUnreadable, Fix: fixUnreadable, Err: err}
	case !info.IsDir():
		return nil, "", &Error{Path: root, Kind: ErrNotFolder,
			Fix: fmt.Sprintf("name the folder that holds it: %q", filepath.Dir(root))}
	}
	dir, err := os.OpenRoot(abs)
	if err != nil {
		return nil, "", &Error{Path: root, Kind: ErrUnreadable, Fix: fixUnreadable, Err: err}
	}
	return dir, abs, nil
}

var errTooMany = errors.New("too many files")

// walker collects sources.
type walker struct {
	root    *os.Root
	abs     string
	opts    FindOptions
	sources []Source
	files   int   // sources that are not skipped
	others  int   // files that are not text by their name
	rootErr error // why the root folder could not be listed
}

func (w *walker) skip(name string, size int64, why Skip, detail string) {
	w.sources = append(w.sources, Source{ID: strings.ToValidUTF8(name, "\uFFFD"), Root: w.abs, Size: size, Skip: why, Detail: detail})
}

// visit handles one entry; it is the body of an [fs.WalkDirFunc].
func (w *walker) visit(name string, d fs.DirEntry, err error) error {
	if name == "." {
		w.rootErr = err
		return err
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // removed while we walk
			return nil
		}
		w.skip(name, 0, SkipUnreadable, reason(err))
		return nil
	}
	base := d.Name()
	if strings.HasPrefix(base, ".") {
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if !utf8.ValidString(base) {
		// Such a name cannot be written in JSON, hence not in a checkpoint.
		if d.IsDir() {
			w.skip(name, 0, SkipName, "")
			return fs.SkipDir
		}
		if formatOf(base) != "" {
			w.skip(name, 0, SkipName, "")
		}
		return nil
	}
	if d.IsDir() {
		if dependencyFolders[base] {
			w.skip(name, 0, SkipDependency, "")
			return fs.SkipDir
		}
		return nil
	}
	if d.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(filepath.Join(w.abs, filepath.FromSlash(name)))
		switch {
		case err == nil && info.IsDir():
			w.skip(name, 0, SkipSymlink, "to a folder")
		case formatOf(base) != "":
			w.skip(name, 0, SkipSymlink, "")
		}
		return nil
	}
	if formatOf(base) == "" {
		w.others++
		return nil
	}
	if !d.Type().IsRegular() {
		w.skip(name, 0, SkipSpecial, "")
		return nil
	}
	return w.visitFile(name, d)
}

func (w *walker) visitFile(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		w.skip(name, 0, SkipUnreadable, reason(err))
		return nil
	}
	if info.Size() > w.opts.MaxBytes {
		w.skip(name, info.Size(), SkipTooLarge, tooLarge(info.Size(), w.opts.MaxBytes))
		return nil
	}
	head, err := readHead(w.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		w.skip(name, info.Size(), SkipUnreadable, reason(err))
		return nil
	}
	if what := binaryKind(head); what != "" {
		w.skip(name, info.Size(), SkipBinary, what)
		return nil
	}
	if w.files++; w.files > w.opts.MaxFiles {
		return errTooMany
	}
	w.sources = append(w.sources, Source{ID: name, Root: w.abs, Size: info.Size(), Limit: w.opts.MaxBytes})
	return nil
}

// fixEmpty says why nothing was found.
func (w *walker) fixEmpty() string {
	if len(w.sources) > 0 {
		s := w.sources[0]
		why := string(s.Skip)
		if s.Detail != "" {
			why += ", " + s.Detail
		}
		if n := len(w.sources) - 1; n > 0 {
			return fmt.Sprintf("it has %d that must be skipped, such as %q (%s)", n+1, s.ID, why)
		}
		return fmt.Sprintf("it has one that must be skipped: %q (%s)", s.ID, why)
	}
	fix := "name a folder with files ending in " + strings.Join(Extensions(), " ")
	if w.others > 0 {
		fix = fmt.Sprintf("none of its %s is one by its name: ", plural(w.others, "file")) + fix
	}
	return fix
}

func tooLarge(size, limit int64) string {
	return fmt.Sprintf("%s, the limit is %s", bytesText(size), bytesText(limit))
}

// reason returns the cause of err without the path, which the caller knows.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// headSize is how much of a file is looked at to tell whether it is text. Git
// looks at as much.
const headSize = 8000

func readHead(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, headSize)
	n, err := io.ReadFull(f, buf)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	return buf[:n], nil
}

// magics are the first bytes of formats that people keep under a text file's
// name and that need not contain a zero byte.
var magics = []struct{ prefix, what string }{
	{"%PDF-", "a PDF document"},
	{"{\\rtf", "an RTF document"},
	{"%!PS", "a PostScript document"},
	{"\x89PNG", "a PNG image"},
	{"\xff\xd8\xff", "a JPEG image"},
	{"GIF8", "a GIF image"},
	{"PK\x03\x04", "a ZIP archive or office document"},
	{"\x1f\x8b", "compressed with gzip"},
	{"\xd0\xcf\x11\xe0", "an old office document"},
	{"\x7fELF", "a program"},
}

// binaryKind tells what head, the start of a file, is if it is not text, and ""
// if it is. A zero byte means binary, as for Git (buffer_is_binary in its
// xdiff-interface.c), except after a byte order mark of UTF-16; so does more
// than one control character in twenty bytes.
func binaryKind(head []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.prefix)) {
			return m.what
		}
	}
	if isUTF16(head) {
		return ""
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return "binary content"
	}
	control := 0
	for _, b := range head {
		if b < 0x20 && !(b >= '\t' && b <= '\r') && b != 0x1b || b == 0x7f {
			control++
		}
	}
	if control*20 > len(head) {
		return "binary content"
	}
	return ""
}
