// Package prompt writes what models read.
package prompt

import (
	"bytes"
	"encoding/json"
)

// JSON returns a value as JSON in which the signs <, > and & stand as they are.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
