package draw

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes a drawing to a file, all of it or nothing: it writes a new
// file beside the path and renames it, so that whatever was there stays when
// writing fails.
//
//	picture, err := render.MermaidInk{}.PNG(ctx, g)
//	if err != nil {
//		return err
//	}
//	return draw.WriteFile("workflow.png", picture)
func WriteFile(path string, data []byte) (err error) {
	mode := os.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) { // the new file's name says nothing to the caller
			err = &fs.PathError{Op: "write", Path: path, Err: at.Err}
		}
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
