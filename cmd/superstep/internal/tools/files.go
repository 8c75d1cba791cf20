package tools

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/console"
)

// The kinds of [FileError].
var (
	ErrPath     = errors.New("is not a path below the folder: give one relative to it that stays in it")
	ErrMissing  = errors.New("does not exist")
	ErrFolder   = errors.New("is a folder")
	ErrSpecial  = errors.New("is not a regular file")
	ErrTooLarge = errors.New("is too large")
	ErrBinary   = errors.New("is not a text file in UTF-8")
	ErrLines    = errors.New("has fewer lines")
)

// FileError says why a file can't be read, listed or written. [errors.Is] matches
// its kind, or the error of the file system.
type FileError struct {
	Path   string // as it was given
	Err    error
	Detail string // may be empty
}

func (e *FileError) Error() string {
	s := fmt.Sprintf("%q %v", e.Path, e.Err)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns the kind.
func (e *FileError) Unwrap() error { return e.Err }

// MaxFile is the size above which a file is neither read nor written, in bytes.
const MaxFile = 4 << 20

// maxListed is how many entries of a folder are listed.
const maxListed = 500

// Folder is a folder and what is below it. Nothing outside of it is reached,
// neither by .. nor by symbolic links.
type Folder string

// CheckPath reports whether a path, as a model gives it, is one that the tools
// take. It doesn't look at any file.
func CheckPath(path string) error {
	switch {
	case len(path) > 4096 || !utf8.ValidString(path) || strings.ContainsAny(path, "\t\n") || console.Clean(path) != path:
		return &FileError{Path: path, Err: ErrPath, Detail: "it is too long, or has characters that cannot be shown"}
	case !filepath.IsLocal(filepath.FromSlash(path)):
		return &FileError{Path: path, Err: ErrPath}
	}
	return nil
}

// open checks a path and opens the folder.
func (f Folder) open(path string) (*os.Root, string, error) {
	if err := CheckPath(path); err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, "", failed(".", err)
	}
	return root, filepath.Clean(filepath.FromSlash(path)), nil
}

// failed is an error of the file system, without the absolute path.
func failed(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &FileError{Path: path, Err: ErrMissing}
	}
	if p := new(fs.PathError); errors.As(err, &p) {
		err = p.Err
	}
	return &FileError{Path: path, Err: fmt.Errorf("cannot be used: %w", err)}
}

// Text returns what a text file holds.
func (f Folder) Text(path string) (string, error) {
	root, name, err := f.open(path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Stat(name) // before it is opened: to open a pipe would block
	if err != nil {
		return "", failed(path, err)
	}
	switch {
	case info.IsDir():
		return "", &FileError{Path: path, Err: ErrFolder}
	case !info.Mode().IsRegular():
		return "", &FileError{Path: path, Err: ErrSpecial}
	}
	file, err := root.Open(name)
	if err != nil {
		return "", failed(path, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	switch {
	case err != nil:
		return "", failed(path, err)
	case len(data) > MaxFile:
		return "", tooLarge(path, max(info.Size(), MaxFile+1))
	case bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data):
		return "", &FileError{Path: path, Err: ErrBinary}
	}
	return string(data), nil
}

func tooLarge(path string, size int64) error {
	return &FileError{Path: path, Err: ErrTooLarge, Detail: fmt.Sprintf("%d bytes, the limit is %d", size, MaxFile)}
}

func (f Folder) read(in readArgs) (string, error) {
	text, err := f.Text(in.Path)
	if err != nil || in.FirstLine <= 1 && in.Lines == 0 {
		return text, err
	}
	lines := slices.Collect(strings.Lines(text))
	from := max(in.FirstLine, 1) - 1
	if from >= len(lines) {
		return "", &FileError{Path: in.Path, Err: ErrLines, Detail: fmt.Sprintf("%d", len(lines))}
	}
	to := len(lines)
	if in.Lines > 0 {
		to = min(to, from+in.Lines)
	}
	return strings.Join(lines[from:to], ""), nil
}

func (f Folder) list(path string) (string, error) {
	if path == "" {
		path = "."
	}
	root, name, err := f.open(path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if info, err := root.Stat(name); err != nil {
		return "", failed(path, err)
	} else if !info.IsDir() {
		return "", &FileError{Path: path, Err: errors.New("is not a folder")}
	}
	dir, err := root.Open(name)
	if err != nil {
		return "", failed(path, err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return "", failed(path, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var b strings.Builder
	for i, e := range entries {
		if i == maxListed {
			fmt.Fprintf(&b, "… and %d more\n", len(entries)-i)
			break
		}
		shown := e.Name()
		if CheckPath(shown) != nil {
			shown = fmt.Sprintf("%q", shown) // can be told, and not be used
		}
		switch info, err := e.Info(); {
		case e.IsDir():
			fmt.Fprintf(&b, "%s/\n", shown)
		case err != nil || !info.Mode().IsRegular():
			fmt.Fprintf(&b, "%s (special)\n", shown)
		default:
			fmt.Fprintf(&b, "%s (%d bytes)\n", shown, info.Size())
		}
	}
	if b.Len() == 0 {
		return "The folder is empty.", nil
	}
	return b.String(), nil
}

// write writes all of a file or nothing. To write it twice does no harm.
func (f Folder) write(in WriteArgs) (_ string, err error) {
	if len(in.Text) > MaxFile {
		return "", tooLarge(in.Path, int64(len(in.Text)))
	}
	root, name, err := f.open(in.Path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	perm := fs.FileMode(0o666)
	switch info, err := root.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", failed(in.Path, err)
	case info.IsDir():
		return "", &FileError{Path: in.Path, Err: ErrFolder}
	case !info.Mode().IsRegular(): // a link would be replaced, not what it leads to
		return "", &FileError{Path: in.Path, Err: ErrSpecial}
	default:
		perm = info.Mode().Perm()
	}
	dir := filepath.Dir(name)
	if err := root.MkdirAll(dir, 0o777); err != nil {
		return "", failed(in.Path, err)
	}
	temp := filepath.Join(dir, ".superstep-"+rand.Text())
	file, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return "", failed(in.Path, err)
	}
	_, err = io.WriteString(file, in.Text)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return "", errors.Join(failed(in.Path, err), root.Remove(temp))
	}
	return fmt.Sprintf("wrote %s: %d bytes", in.Path, len(in.Text)), nil
}
