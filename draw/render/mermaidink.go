package render

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/superstep-dev/superstep/draw"
)

// DefaultMermaidInk is the public service that [MermaidInk] uses unless it is
// told another.
const DefaultMermaidInk = "https://mermaid.ink"

// MermaidInk has the service mermaid.ink, or one of your own that speaks as it
// does, draw a graph from the text of [Mermaid]. The names in the graph are
// sent to that service. The zero value is ready for use.
type MermaidInk struct {
	// BaseURL is DefaultMermaidInk unless set.
	BaseURL string
	// Client sends the requests; unless set, one that gives up after a minute.
	Client *http.Client
	// Options are those of Mermaid.
	Options *draw.MermaidOptions
}

// A MermaidInkError says that the service could not be reached or did not
// answer with a picture.
type MermaidInkError struct {
	URL        string
	StatusCode int    // 0 when there was no answer
	Body       string // the beginning of the answer when it isn't a picture
	Err        error  // nil when the status says it all
}

func (e *MermaidInkError) Error() string {
	u := e.URL
	if len(u) > 80 {
		u = u[:77] + "..."
	}
	s := "draw: mermaid.ink request " + u
	switch {
	case e.Err != nil:
		s += ": " + e.Err.Error()
	default:
		s += fmt.Sprintf(": status %d %s", e.StatusCode, http.StatusText(e.StatusCode))
	}
	if e.Body != "" {
		s += ": " + e.Body
	}
	return s
}

func (e *MermaidInkError) Unwrap() error { return e.Err }

// PNG returns the drawing as a PNG picture, or a [*MermaidInkError].
func (m MermaidInk) PNG(ctx context.Context, g *draw.Graph) ([]byte, error) {
	return m.fetch(ctx, g, "/img/", "?type=png", func(b []byte) error {
		if !bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")) {
			return errors.New("the answer is not a PNG picture")
		}
		return nil
	})
}

// SVG returns the drawing as an SVG document, or a [*MermaidInkError].
func (m MermaidInk) SVG(ctx context.Context, g *draw.Graph) ([]byte, error) {
	return m.fetch(ctx, g, "/svg/", "", func(b []byte) error {
		d := xml.NewDecoder(bytes.NewReader(b))
		d.Strict = false
		for {
			t, err := d.RawToken()
			if err != nil {
				return errors.New("the answer is not an SVG document")
			}
			if e, ok := t.(xml.StartElement); ok {
				if e.Name.Local != "svg" {
					return fmt.Errorf("the answer is not an SVG document but begins with <%s>", e.Name.Local)
				}
				return nil
			}
		}
	})
}

func (m MermaidInk) fetch(ctx context.Context, g *draw.Graph, path, query string, check func([]byte) error) ([]byte, error) {
	const maxBody = 64 << 20
	url := strings.TrimRight(cmp.Or(m.BaseURL, DefaultMermaidInk), "/") + path +
		base64.URLEncoding.EncodeToString([]byte(draw.Mermaid(g, m.Options))) + query
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, &MermaidInkError{URL: url, Err: err}
	}
	client := m.Client
	if client == nil {
		client = &http.Client{Timeout: time.Minute}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, &MermaidInkError{URL: url, Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the answer is larger than %d bytes", maxBody)
	}
	if err != nil {
		return nil, &MermaidInkError{URL: url, StatusCode: resp.StatusCode, Err: err}
	}
	fail := &MermaidInkError{URL: url, StatusCode: resp.StatusCode}
	if resp.StatusCode != http.StatusOK {
		fail.Body = excerpt(body)
		return nil, fail
	}
	if fail.Err = check(body); fail.Err != nil {
		fail.Body = excerpt(body)
		return nil, fail
	}
	return body, nil
}

// excerpt is the beginning of an answer, fit for an error message.
func excerpt(b []byte) string {
	s := strings.ToValidUTF8(string(b[:min(len(b), 200)]), "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
