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

// events reads the messages of AWS's event stream as server-sent events: those of Anthropic
// that are in them, and those of Converse.
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
	name, data := header(":event-type"), m.Payload
	var b bytes.Buffer
	switch name {
	case "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata":
		b.WriteString("event: " + name + "\n")
	case "chunk":
		var chunk struct{ Bytes []byte }
		if err := json.Unmarshal(data, &chunk); err != nil {
			return nil, vendor.Unreadable(provider, "a chunk is not JSON: %w", err)
		}
		data = chunk.Bytes
	default:
		return nil, nil // Bedrock may add events of its own
	}
	b.WriteString("data: ")
	if err := json.Compact(&b, data); err != nil { // on one line
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
