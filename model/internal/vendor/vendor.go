// Package vendor is what the packages of the vendors' models stand on: requests over
// HTTP, their answers and streams, and what goes wrong with them.
package vendor

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// OutputSchema returns the schema of an answer with its description.
func OutputSchema(s model.Schema) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(s.Schema, &fields); err != nil || fields == nil {
		return nil, errors.New("Output.Schema is not a JSON object")
	}
	if _, has := fields["description"]; has || s.Description == "" {
		return s.Schema, nil
	}
	description, err := json.Marshal(s.Description)
	if err != nil {
		return nil, fmt.Errorf("Output.Description: %v", err)
	}
	rest := bytes.TrimSpace(s.Schema)[1:]
	if len(fields) > 0 {
		rest = append([]byte(","), rest...)
	}
	return append([]byte(`{"description":`+string(description)), rest...), nil
}

// Resolve checks a source, drops the parameters of its media type, and decodes
// a data URL.
func Resolve(s chat.Source) (chat.Source, error) {
	n := 0
	for _, has := range []bool{s.Data != nil, s.URL != "", s.FileID != ""} {
		if has {
			n++
		}
	}
	if n != 1 {
		return s, fmt.Errorf("%d of Data, URL and FileID are set, not one", n)
	}
	if meta, data, ok := strings.Cut(s.URL, ","); ok && strings.HasPrefix(meta, "data:") {
		meta, encoded := strings.CutSuffix(meta[len("data:"):], ";base64")
		var err error
		if encoded {
			s.Data, err = base64.StdEncoding.DecodeString(data)
		} else {
			data, err = url.PathUnescape(data)
			s.Data = []byte(data)
		}
		if err != nil {
			return s, fmt.Errorf("data URL: %w", err)
		}
		s.URL = ""
		switch {
		case s.MIME != "":
		case meta == "":
			s.MIME = "text/plain" // RFC 2397
		default:
			s.MIME = meta
		}
	} else if s.URL != "" && !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
		return s, fmt.Errorf("the URL is none of http, https and data")
	}
	if s.Data != nil && s.MIME == "" {
		return s, fmt.Errorf("no media type")
	}
	if t, _, err := mime.ParseMediaType(s.MIME); err == nil {
		s.MIME = t
	}
	return s, nil
}

// CallID is the ID of a tool call, or one that follows from it where a provider
// doesn't take it.
func CallID(id string, taken func(string) bool) string {
	if taken(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// Misplaced is the error for a part that can't stand where it does.
func Misplaced(p chat.Part, where string) error {
	var what string
	switch p.(type) {
	case chat.Text:
		what = "text"
	case chat.Image:
		what = "an image"
	case chat.Audio:
		what = "audio"
	case chat.File:
		what = "a file"
	case chat.Reasoning:
		what = "reasoning"
	case chat.ToolCall:
		what = "a tool call"
	case chat.ToolResult:
		what = "a tool result"
	default:
		what = fmt.Sprintf("a part of type %T", p)
	}
	return fmt.Errorf("%s is not supported in %s", what, where)
}
