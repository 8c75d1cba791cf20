package bedrock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

const eventStream = "application/vnd.amazon.eventstream"

// events reads the messages of AWS's event stream as the server-sent events of Anthropic
// that are in them.
type events struct {
	io.Closer
	body    io.Reader
	decoder *eventstream.Decoder
	payload []byte // which is used again
	rest    []byte // of the last event, not read yet
}

func newEvents(body io.ReadCloser) *events {
	return &events{Closer: body, body: body, decoder: eventstream.NewDecoder()}
}

// Read implements [io.Reader]. What AWS says went wrong is an [*model.Error].
func (e *events) Read(p []byte) (int, error) {
	for len(e.rest) == 0 {
		m, err := e.decoder.Decode(e.body, e.payload[:0])
		if err != nil {
			return 0, err
		}
		e.payload = m.Payload
		if e.rest, err = event(m); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func event(m eventstream.Message) ([]byte, error) {
	header := func(name string) string {
		if v := m.Headers.Get(name); v != nil {
			return v.String()
		}
		return ""
	}
	switch header(":message-type") {
	case "exception":
		var said struct{ Message string }
		if json.Unmarshal(m.Payload, &said) != nil || said.Message == "" {
			said.Message = vendor.Shorten(m.Payload)
		}
		return nil, failed(header(":exception-type"), said.Message)
	case "error":
		return nil, failed(header(":error-code"), header(":error-message"))
	}
	if header(":event-type") != "chunk" {
		return nil, nil // Bedrock may add events of its own
	}
	var chunk struct{ Bytes []byte }
	var b bytes.Buffer
	b.WriteString("data: ")
	err := json.Unmarshal(m.Payload, &chunk)
	if err == nil {
		err = json.Compact(&b, chunk.Bytes) // on one line
	}
	if err != nil {
		return nil, vendor.Unreadable(provider, "a chunk is not JSON: %w", err)
	}
	b.WriteString("\n\n")
	return b.Bytes(), nil
}

func failed(code, message string) *model.Error {
	if message == "" {
		message = fmt.Sprintf("the stream ended with %q", code)
	}
	return &model.Error{Provider: provider, Kind: kindOf(code, message, model.ErrorServer), Code: code, Message: message}
}
