package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
)

// remote is a tool of a server.
type remote struct {
	c      *Client
	name   string // the server's
	spec   chat.ToolSpec
	output json.RawMessage
}

func (r *remote) Spec() chat.ToolSpec { return r.spec }

// OutputSchema is the JSON Schema of the results' artifacts, nil if the server gives none.
func (r *remote) OutputSchema() json.RawMessage { return r.output }

// The key of a request's level for logging, since the modern protocol.
const metaLogLevel = "io.modelcontextprotocol/logLevel"

func (r *remote) Call(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	object, err := objectOf(args)
	if err != nil {
		return tool.Result{}, &tool.Error{Tool: r.spec.Name, Kind: tool.ErrorArguments, Err: err}
	}
	var token string
	if r.c.cfg.OnProgress != nil {
		var end func()
		token, end = r.c.follow(ctx, r.spec.Name)
		defer end()
	}
	res, err := request(ctx, r.c, r.spec.Name, func(ctx context.Context, s *session) (*sdk.CallToolResult, error) {
		return converse(ctx, r.c, s, fmt.Sprintf("tool %q", r.spec.Name), r.spec.Name, object, func(ctx context.Context, in sdk.InputResponseMap, state string) (*sdk.CallToolResult, error) {
			p := &sdk.CallToolParams{Name: r.name, Arguments: object, Meta: sdk.Meta{}, InputResponses: in, RequestState: state}
			if token != "" {
				p.SetProgressToken(token)
			}
			if r.c.cfg.OnLog != nil && s.modern() {
				p.Meta[metaLogLevel] = r.c.cfg.LogLevel
			}
			return s.CallTool(ctx, p)
		})
	})
	if err != nil {
		return tool.Result{}, r.explain(ctx, err)
	}
	parts, err := partsOf(res.Content)
	if err != nil {
		return tool.Result{}, &tool.Error{Tool: r.spec.Name, Err: err}
	}
	if res.IsError {
		return tool.Result{}, &tool.Error{Tool: r.spec.Name, Err: errors.New(errorText(parts))}
	}
	out := tool.Result{Content: parts}
	if res.StructuredContent != nil {
		if out.Artifact, err = json.Marshal(res.StructuredContent); err != nil {
			return tool.Result{}, &tool.Error{Tool: r.spec.Name, Err: err}
		}
		if len(parts) == 0 { // the model is to see something
			out.Content = []chat.Part{chat.Text{Text: string(out.Artifact)}}
		}
	}
	return out, nil
}

// explain finds out whether the server refused the arguments or doesn't know the
// tool, for which the protocol has one code.
func (r *remote) explain(ctx context.Context, err error) error {
	var e *tool.Error
	var answer *jsonrpc.Error
	if !errors.As(err, &e) || !errors.As(e.Err, &answer) || answer.Code != jsonrpc.CodeInvalidParams {
		return err
	}
	listed, lerr := r.c.list(ctx)
	if lerr != nil {
		return err
	}
	names := make([]string, len(listed))
	for i, t := range listed {
		if t.Name == r.name {
			e.Kind = tool.ErrorArguments
			return e
		}
		names[i] = r.c.cfg.Prefix + t.Name
	}
	return tool.Unknown(r.spec.Name, names)
}

// objectOf returns arguments that are a JSON object.
func objectOf(args json.RawMessage) (json.RawMessage, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		return json.RawMessage("{}"), nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(args, &object); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return nil, fmt.Errorf("they must be a JSON object, not a JSON %s", te.Value)
		}
		return nil, fmt.Errorf("they aren't valid JSON: %w", err)
	}
	return args, nil
}

// errorText is what a result that is an error says.
func errorText(parts []chat.Part) string {
	var lines []string
	for _, p := range parts {
		switch p := p.(type) {
		case chat.Text:
			lines = append(lines, p.Text)
		default:
			lines = append(lines, fmt.Sprintf("[%s]", strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", p), "chat."))))
		}
	}
	if strings.TrimSpace(strings.Join(lines, "")) == "" {
		return "the server says that it failed, and not why"
	}
	return strings.Join(lines, "\n")
}
