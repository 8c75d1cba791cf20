// Package vendor holds what the packages of several vendors' models do alike.
package vendor

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// Ended returns the error for a context that has ended, else nil.
func Ended(ctx context.Context, provider string) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != err {
		return fmt.Errorf("%s: %w: %w", provider, err, cause)
	}
	return fmt.Errorf("%s: %w", provider, err)
}

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
