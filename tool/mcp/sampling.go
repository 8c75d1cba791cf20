//lint:file-ignore SA1019 servers ask for samples for years to come

package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// SamplingRequest is what a server wants to ask the model during a request.
type SamplingRequest struct {
	Server    string         `json:"server"` // name
	During    string         `json:"during"` // the request, such as `tool "summarize"`
	Messages  []chat.Message `json:"messages"`
	MaxTokens int            `json:"max_tokens"` // of the answer
	Tools     []string       `json:"tools,omitempty"`
}

// SamplingKey is the key of the question that [ApproveSampling] asks.
const SamplingKey = "sampling"

// ApproveSampling is a function for [Config.ApproveSampling] that asks a person by
// [graph.Interrupt], with the SamplingRequest as its value and true or false as the answer. What
// [Ask] says of the request that waits for it holds here as well.
func ApproveSampling(ctx context.Context, r SamplingRequest) (bool, error) {
	return graph.Interrupt[bool](ctx, SamplingKey, r)
}

// sample asks the model what the server wants to know. The answer is recorded where
// the request is made in a task: one that is made again gets the same.
func (k *inquiry) sample(p *sdk.CreateMessageWithToolsParams) (*sdk.CreateMessageWithToolsResult, error) {
	if k.c.cfg.Sampling == nil {
		return nil, k.refuse(errors.New("it asks for a model, which it was told that this client hasn't: set Config.Sampling if it is to have one"))
	}
	req, err := requestOf(p)
	if err != nil {
		return nil, k.refuse(fmt.Errorf("what it asks the model is wrong: %w: report it to who made it", err))
	}
	says, err := json.Marshal(p)
	if err != nil {
		return nil, k.refuse(err)
	}
	ctx, err := k.scoped("sample", string(says))
	if err != nil {
		return nil, err
	}
	if k.c.cfg.ApproveSampling != nil {
		r := SamplingRequest{Server: k.c.plainName(), During: k.during, Messages: req.Messages, MaxTokens: req.MaxTokens}
		for _, t := range req.Tools {
			r.Tools = append(r.Tools, t.Name)
		}
		switch ok, err := k.c.cfg.ApproveSampling(ctx, r); {
		case err != nil:
			return nil, fmt.Errorf("mcp: server %s, during %s, wants to ask the model: %w", k.c.server, k.during, err)
		case !ok:
			return nil, k.failure(errors.New("the user didn't let it ask the model"))
		}
	}
	ask := func(context.Context, string) (s sampled, err error) {
		resp, err := model.Ask(ctx, k.c.cfg.Sampling, req)
		if err != nil {
			return s, err
		}
		s = sampled{Model: resp.Message.Model, Usage: resp.Message.Usage, Cached: resp.Cached}
		s.Result, err = sampleOf(resp.Message)
		return s, err
	}
	var s sampled
	if graph.Info(ctx).Task == "" {
		s, err = ask(ctx, "")
	} else {
		s, err = graph.Once(ctx, "sample", ask)
	}
	if err != nil {
		return nil, fmt.Errorf("mcp: server %s, during %s, asks the model: %w", k.c.server, k.during, err)
	}
	model.Count(ctx, cmp.Or(k.tool, k.c.plainName()), &model.Response{Message: chat.Message{Model: s.Model, Usage: s.Usage}, Cached: s.Cached})
	return s.Result, nil
}

// sampled is what is recorded of the model's answer.
type sampled struct {
	Result *sdk.CreateMessageWithToolsResult
	Model  string      `json:",omitempty"` // and what it used
	Usage  *chat.Usage `json:",omitempty"`
	Cached bool        `json:",omitempty"`
}

// failure is an error of the request for the model that made it.
func (k *inquiry) failure(err error) error {
	if k.tool == "" {
		return fmt.Errorf("mcp: server %s, during %s: %w", k.c.server, k.during, err)
	}
	return &tool.Error{Tool: k.tool, Err: err}
}

func requestOf(p *sdk.CreateMessageWithToolsParams) (*model.Request, error) {
	if p.MaxTokens < 0 || p.MaxTokens > 1<<30 {
		return nil, fmt.Errorf("maxTokens is %d", p.MaxTokens)
	}
	req := &model.Request{Config: model.Config{MaxTokens: int(p.MaxTokens), Stop: p.StopSequences}}
	if p.Temperature != 0 {
		req.Temperature = &p.Temperature
	}
	if p.SystemPrompt != "" {
		req.Messages = append(req.Messages, chat.System(p.SystemPrompt))
	}
	calls := map[string]string{} // names by ID
	for i, m := range p.Messages {
		if m == nil || len(m.Content) == 0 {
			return nil, fmt.Errorf("message %d is empty", i)
		}
		out := chat.Message{Role: chat.RoleUser}
		if m.Role == "assistant" {
			out.Role = chat.RoleAssistant
		} else if m.Role != "user" {
			return nil, fmt.Errorf("message %d has the role %q", i, m.Role)
		}
		for _, c := range m.Content {
			switch c := c.(type) {
			case *sdk.ToolUseContent:
				args, err := json.Marshal(c.Input)
				if err != nil {
					return nil, err
				}
				calls[c.ID] = c.Name
				out.Parts = append(out.Parts, chat.ToolCall{ID: c.ID, Name: c.Name, Args: string(args)})
			case *sdk.ToolResultContent:
				parts, err := partsOf(c.Content)
				if err != nil {
					return nil, fmt.Errorf("message %d: %w", i, err)
				}
				r := chat.ToolResult{CallID: c.ToolUseID, Name: calls[c.ToolUseID], Content: parts, IsError: c.IsError}
				req.Messages = append(req.Messages, chat.Message{Role: chat.RoleTool, Name: r.Name, Parts: []chat.Part{r}})
			default:
				part, err := partOf(c)
				if err != nil {
					return nil, fmt.Errorf("message %d: %w", i, err)
				}
				out.Parts = append(out.Parts, part)
			}
		}
		if len(out.Parts) > 0 {
			req.Messages = append(req.Messages, out)
		}
	}
	for _, t := range p.Tools {
		schema, err := json.Marshal(t.InputSchema)
		if err != nil {
			return nil, err
		}
		if err := tool.CheckSchema(t.Name, schema); err != nil {
			return nil, err
		}
		req.Tools = append(req.Tools, chat.ToolSpec{Name: t.Name, Description: t.Description, Schema: schema})
	}
	if c := p.ToolChoice; c != nil {
		switch c.Mode {
		case "", "auto":
		case "required":
			req.ToolChoice = model.ToolRequired
		case "none":
			req.ToolChoice = model.ToolNone
		default:
			return nil, fmt.Errorf("the tool choice is %q", c.Mode)
		}
	}
	return req, nil
}

// sampleOf returns a model's answer for a server.
func sampleOf(m chat.Message) (*sdk.CreateMessageWithToolsResult, error) {
	res := &sdk.CreateMessageWithToolsResult{Role: "assistant", Model: cmp.Or(m.Model, "unknown"), StopReason: "endTurn"}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case chat.Reasoning: // it is not for others
		case chat.ToolCall:
			args, err := p.Arguments()
			if err != nil {
				return nil, fmt.Errorf("the arguments of its call of %q: %w", p.Name, err)
			}
			use := &sdk.ToolUseContent{ID: p.ID, Name: p.Name}
			if err := json.Unmarshal(args, &use.Input); err != nil {
				return nil, fmt.Errorf("the arguments of its call of %q: %w", p.Name, err)
			}
			res.Content = append(res.Content, use)
			res.StopReason = "toolUse"
		default:
			c, err := contentOf(p)
			if err != nil {
				return nil, err
			}
			res.Content = append(res.Content, c)
		}
	}
	if m.Finish == chat.FinishLength {
		res.StopReason = "maxTokens"
	}
	if len(res.Content) == 0 {
		res.Content = []sdk.Content{&sdk.TextContent{}}
	}
	return res, nil
}

// withTools returns a request of older servers as one of newer.
func withTools(p *sdk.CreateMessageParams) *sdk.CreateMessageWithToolsParams {
	out := &sdk.CreateMessageWithToolsParams{
		Meta: p.Meta, IncludeContext: p.IncludeContext, MaxTokens: p.MaxTokens, Metadata: p.Metadata,
		ModelPreferences: p.ModelPreferences, StopSequences: p.StopSequences, SystemPrompt: p.SystemPrompt, Temperature: p.Temperature,
	}
	for _, m := range p.Messages {
		if m == nil { // refused where the others are
			out.Messages = append(out.Messages, nil)
			continue
		}
		out.Messages = append(out.Messages, &sdk.SamplingMessageV2{Role: m.Role, Content: []sdk.Content{m.Content}})
	}
	return out
}
