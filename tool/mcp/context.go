package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
)

// Resource is something that a server can be asked to read out.
type Resource struct {
	// URI names it. With Template it is a template (RFC 6570) for many, such as
	// file:///logs/{day}.
	URI      string `json:"uri"`
	Template bool   `json:"template,omitempty"`

	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	MIME        string `json:"mime,omitempty"` // empty: unknown
	Size        int64  `json:"size,omitempty"` // in bytes; 0: unknown
}

// Prompt is a text for models that a server keeps.
type Prompt struct {
	Name        string           `json:"name"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`
}

// PromptArgument is what is put into a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Resources returns what the server can read out now, the templates last.
func (c *Client) Resources(ctx context.Context) ([]Resource, error) {
	fixed, err := pages(ctx, c, "resources", func(ctx context.Context, s *session, cursor string) ([]Resource, string, error) {
		page, err := s.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		var out []Resource
		if err := noNull(page.Resources); err != nil {
			return nil, "", err
		}
		for _, r := range page.Resources {
			out = append(out, Resource{URI: r.URI, Name: r.Name, Description: r.Description, MIME: r.MIMEType, Size: r.Size})
		}
		return out, page.NextCursor, nil
	})
	if err != nil {
		return nil, err
	}
	templates, err := pages(ctx, c, "templates of resources", func(ctx context.Context, s *session, cursor string) ([]Resource, string, error) {
		page, err := s.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		var out []Resource
		if err := noNull(page.ResourceTemplates); err != nil {
			return nil, "", err
		}
		for _, r := range page.ResourceTemplates {
			out = append(out, Resource{URI: r.URITemplate, Template: true, Name: r.Name, Description: r.Description, MIME: r.MIMEType})
		}
		return out, page.NextCursor, nil
	})
	return append(fixed, templates...), err
}

// Prompts returns the prompts that the server has now.
func (c *Client) Prompts(ctx context.Context) ([]Prompt, error) {
	return pages(ctx, c, "prompts", func(ctx context.Context, s *session, cursor string) ([]Prompt, string, error) {
		page, err := s.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		var out []Prompt
		if err := noNull(page.Prompts); err != nil {
			return nil, "", err
		}
		for _, p := range page.Prompts {
			prompt := Prompt{Name: p.Name, Description: p.Description}
			if err := noNull(p.Arguments); err != nil {
				return nil, "", err
			}
			for _, a := range p.Arguments {
				prompt.Arguments = append(prompt.Arguments, PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
			}
			out = append(out, prompt)
		}
		return out, page.NextCursor, nil
	})
}

// NotFoundError says that a server doesn't have a resource or a prompt, or doesn't take
// its arguments, in the server's words.
type NotFoundError struct {
	Server string // name
	What   string // such as `resource "file:///a"`
	Err    error
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("mcp: server %s, %s: %v", e.Server, e.What, e.Err)
}

// Unwrap returns the cause.
func (e *NotFoundError) Unwrap() error { return e.Err }

// get asks for a resource or a prompt, during which the server may ask back.
func get[R answer](ctx context.Context, c *Client, what string, args any, send func(context.Context, *session, sdk.InputResponseMap, string) (R, error)) (R, error) {
	r, err := request(ctx, c, "", func(ctx context.Context, s *session) (R, error) {
		return converse(ctx, c, s, what, "", args, func(ctx context.Context, in sdk.InputResponseMap, state string) (R, error) {
			return send(ctx, s, in, state)
		})
	})
	var e *jsonrpc.Error
	//lint:ignore SA1019 older servers say so
	if errors.As(err, &e) && (e.Code == jsonrpc.CodeInvalidParams || e.Code == sdk.CodeResourceNotFound || e.Code == jsonrpc.CodeMethodNotFound) {
		err = &NotFoundError{Server: c.server, What: what, Err: e}
	}
	return r, err
}

// ReadResource returns what the server reads out under a URI, as the parts of a
// message for a model: a text begins with the URI. One that the server doesn't have is a
// [*NotFoundError].
func (c *Client) ReadResource(ctx context.Context, uri string) ([]chat.Part, error) {
	res, err := get(ctx, c, fmt.Sprintf("resource %q", uri), nil, func(ctx context.Context, s *session, in sdk.InputResponseMap, state string) (*sdk.ReadResourceResult, error) {
		return s.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri, InputResponses: in, RequestState: state})
	})
	if err != nil {
		return nil, err
	}
	if err := noNull(res.Contents); err != nil {
		return nil, fmt.Errorf("mcp: server %s, resource %q: %w", c.server, uri, err)
	}
	var parts []chat.Part
	for _, r := range res.Contents {
		parts = append(parts, resourcePart(r))
	}
	return parts, nil
}

// GetPrompt returns a prompt of the server as messages for a model. One that the
// server doesn't have, or other arguments than it takes, are a [*NotFoundError].
func (c *Client) GetPrompt(ctx context.Context, name string, args map[string]string) ([]chat.Message, error) {
	res, err := get(ctx, c, fmt.Sprintf("prompt %q", name), args, func(ctx context.Context, s *session, in sdk.InputResponseMap, state string) (*sdk.GetPromptResult, error) {
		return s.GetPrompt(ctx, &sdk.GetPromptParams{Name: name, Arguments: args, InputResponses: in, RequestState: state})
	})
	if err != nil {
		return nil, err
	}
	if err := noNull(res.Messages); err != nil {
		return nil, fmt.Errorf("mcp: server %s, prompt %q: %w", c.server, name, err)
	}
	var messages []chat.Message
	for i, m := range res.Messages {
		part, err := partOf(m.Content)
		if err != nil {
			return nil, fmt.Errorf("mcp: server %s, prompt %q: message %d: %w", c.server, name, i, err)
		}
		role := chat.RoleUser
		if m.Role == "assistant" {
			role = chat.RoleAssistant
		}
		messages = append(messages, chat.Message{Role: role, Parts: []chat.Part{part}})
	}
	return messages, nil
}

// ContextTools returns tools with which a model finds and reads the server's resources
// (list_resources, read_resource) and prompts (list_prompts, get_prompt), with the
// prefix of the configuration. They go by what the server has when they are called.
func (c *Client) ContextTools() []tool.Tool {
	type reading struct {
		URI string `json:"uri" jsonschema:"the URI; that of a template with values in the place of what is in braces"`
	}
	type getting struct {
		Name string            `json:"name"`
		Args map[string]string `json:"arguments,omitempty" jsonschema:"the prompt's arguments by name"`
	}
	return []tool.Tool{
		tool.New(c.cfg.Prefix+"list_resources", "Lists what "+c.plainName()+" can read out.", func(ctx context.Context, _ struct{}) ([]Resource, error) {
			return c.Resources(ctx)
		}),
		tool.New(c.cfg.Prefix+"read_resource", "Reads a resource of "+c.plainName()+".", func(ctx context.Context, in reading) ([]chat.Part, error) {
			return c.ReadResource(ctx, in.URI)
		}),
		tool.New(c.cfg.Prefix+"list_prompts", "Lists the prompts of "+c.plainName()+".", func(ctx context.Context, _ struct{}) ([]Prompt, error) {
			return c.Prompts(ctx)
		}),
		tool.New(c.cfg.Prefix+"get_prompt", "Returns a prompt of "+c.plainName()+", filled in.", func(ctx context.Context, in getting) ([]chat.Part, error) {
			messages, err := c.GetPrompt(ctx, in.Name, in.Args)
			if err != nil {
				return nil, err
			}
			var parts []chat.Part
			for _, m := range messages {
				for _, p := range m.Parts {
					if t, ok := p.(chat.Text); ok {
						p = chat.Text{Text: fmt.Sprintf("%s: %s", strings.ToLower(string(m.Role)), t.Text)}
					}
					parts = append(parts, p)
				}
			}
			return parts, nil
		}),
	}
}
