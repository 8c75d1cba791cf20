package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Append adds a case to the data set in a file, which is made if it isn't there. A name
// that a case of the file has is an error, as is a line that is no case: a [*LineError].
func Append(file string, c Case) error {
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("case %q: %w", c.Name, err)
	}
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n := 0
	for text := range bytes.Lines(before) {
		n++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var old struct{ Name string }
		if err := json.Unmarshal(text, &old); err != nil {
			return fmt.Errorf("%s: %w", file, &LineError{n, plainly(err)})
		}
		if old.Name == c.Name {
			return fmt.Errorf("%s: %w", file, &LineError{n, fmt.Errorf("there is a case %q already; choose another name", c.Name)})
		}
	}
	if len(before) > 0 && before[len(before)-1] != '\n' {
		line = append([]byte{'\n'}, line...)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
