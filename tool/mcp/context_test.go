package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// library is a server of resources and prompts.
func library(t *testing.T) *mcp.Server {
	s, err := mcp.NewServer("library", "1")
	if err != nil {
		t.Fatal(err)
	}
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		if strings.HasSuffix(r.Params.URI, "none") {
			return nil, sdk.ResourceNotFoundError(r.Params.URI)
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
			{URI: r.Params.URI, MIMEType: "text/plain", Text: "all work"}, {URI: r.Params.URI + ".png", MIMEType: "image/png", Blob: picture},
		}}, nil
	}
	s.SDK().AddResource(&sdk.Resource{URI: "book://shining", Name: "shining", Description: "a novel", MIMEType: "text/plain", Size: 8}, read)
	s.SDK().AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "page://{n}", Name: "page"}, read)
	s.SDK().AddPrompt(&sdk.Prompt{Name: "review", Description: "reviews", Arguments: []*sdk.PromptArgument{{Name: "book", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			if r.Params.RequestState == "" {
				return &sdk.GetPromptResult{RequestState: "x", InputRequests: sdk.InputRequestMap{"tone": &sdk.ElicitParams{Message: "In which tone?"}}}, nil
			}
			tone := r.Params.InputResponses["tone"].(*sdk.ElicitResult).Action
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: "Review " + r.Params.Arguments["book"] + ", " + tone}},
				{Role: "assistant", Content: &sdk.TextContent{Text: "Well:"}},
			}}, nil
		})
	return closing(t, s)
}

func accepts(context.Context, mcp.Elicitation) (mcp.ElicitationAnswer, error) {
	return mcp.ElicitationAnswer{Action: mcp.Accept}, nil
}

func TestResourcesAndPromptsAreContextForAModel(t *testing.T) {
	for _, protocol := range []string{"", old} {
		c := connect(t, mcp.Config{Transport: library(t).Local(), Protocol: protocol, Elicit: accepts})
		resources, err := c.Resources(t.Context())
		if want := []mcp.Resource{
			{URI: "book://shining", Name: "shining", Description: "a novel", MIME: "text/plain", Size: 8}, {URI: "page://{n}", Template: true, Name: "page"},
		}; err != nil || !reflect.DeepEqual(resources, want) {
			t.Errorf("resources are %+v, %v", resources, err)
		}
		parts, err := c.ReadResource(t.Context(), "page://7")
		if want := []chat.Part{
			chat.Text{Text: "[resource page://7 text/plain]\nall work"}, chat.Image{Source: chat.Source{Data: picture, MIME: "image/png"}},
		}; err != nil || !reflect.DeepEqual(parts, want) {
			t.Errorf("page 7 is %+v, %v", parts, err)
		}
		prompts, err := c.Prompts(t.Context())
		if want := []mcp.Prompt{{Name: "review", Description: "reviews", Arguments: []mcp.PromptArgument{{Name: "book", Required: true}}}}; err != nil || !reflect.DeepEqual(prompts, want) {
			t.Errorf("prompts are %+v, %v", prompts, err)
		}
		messages, err := c.GetPrompt(t.Context(), "review", map[string]string{"book": "Shining"})
		if want := []chat.Message{chat.User("Review Shining, accept"), chat.Assistant("Well:")}; err != nil || !reflect.DeepEqual(messages, want) {
			t.Errorf("the prompt is %+v, %v", messages, err)
		}
		for what, get := range map[string]func() error{
			`resource "page://none"`: func() error { _, err := c.ReadResource(t.Context(), "page://none"); return err },
			`resource "other://x"`:   func() error { _, err := c.ReadResource(t.Context(), "other://x"); return err },
			`prompt "praise"`:        func() error { _, err := c.GetPrompt(t.Context(), "praise", nil); return err },
		} {
			err := get()
			if e, ok := errors.AsType[*mcp.NotFoundError](err); !ok || e.What != what {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

func TestAModelFindsAndReadsResourcesAndPrompts(t *testing.T) {
	c := connect(t, mcp.Config{Transport: library(t).Local(), Prefix: "lib_", Elicit: accepts})
	set, err := tool.NewSet(c.ContextTools()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct{ tool, args, want string }{
		{"lib_list_resources", `{}`, `"uri":"book://shining"`},
		{"lib_read_resource", `{"uri":"book://shining"}`, "all work"},
		{"lib_list_prompts", `{}`, `"name":"review"`},
		{"lib_get_prompt", `{"name":"review","arguments":{"book":"It"}}`, "user: Review It, accept"},
	} {
		tl, err := set.Get(k.tool)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, tl, k.args); !strings.Contains(got, k.want) {
			t.Errorf("%s gives %q", k.tool, got)
		}
	}
	read, _ := set.Get("lib_read_resource")
	var e *tool.Error
	if _, err := read.Call(t.Context(), json.RawMessage(`{"uri":"page://none"}`)); !errors.As(err, &e) || e.Tool != "lib_read_resource" {
		t.Errorf("error is %v", err)
	}
}

func TestAServerOfToolsAloneHasNoContext(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg mcp.Config) {
		c := connect(t, cfg)
		resources, err := c.Resources(t.Context())
		prompts, err2 := c.Prompts(t.Context())
		if len(resources)+len(prompts) > 0 || err != nil || err2 != nil {
			t.Errorf("%v, %v, %v, %v", resources, prompts, err, err2)
		}
	})
}

// A list that has what is none is refused, and doesn't end the program.
func TestAListWithNullsIsAnError(t *testing.T) {
	h := web(t, spoken(t, func(w http.ResponseWriter, _ *http.Request, id, method string) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, map[string]string{
			"resources/list":           `{"resources":[null]}`,
			"resources/templates/list": `{"resourceTemplates":[null]}`,
			"prompts/list":             `{"prompts":[{"name":"p","arguments":[null]}]}`,
			"resources/read":           `{"contents":[null]}`,
			"prompts/get":              `{"messages":[null]}`,
		}[method])
	}))
	c := connect(t, mcp.Config{Transport: h, Protocol: "2025-06-18"})
	_, resources := c.Resources(t.Context())
	_, prompts := c.Prompts(t.Context())
	for what, err := range map[string]error{"resources": resources, "prompts": prompts} {
		if _, ok := errors.AsType[*mcp.ListError](err); !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, read := c.ReadResource(t.Context(), "a://b")
	_, prompt := c.GetPrompt(t.Context(), "p", nil)
	for what, err := range map[string]error{"read": read, "prompt": prompt} {
		if err == nil || !strings.Contains(err.Error(), "null") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestResourcesAndPromptsThatChangeWhileConnected(t *testing.T) {
	for _, protocol := range []string{"", old} {
		changed := make(chan struct{}, 100)
		s := library(t)
		c := connect(t, mcp.Config{Transport: s.Local(), Protocol: protocol, OnContextChanged: func() { changed <- struct{}{} }})
		n := 0
		for told := false; !told; n++ { // a notice before the subscription is lost
			s.SDK().AddPrompt(&sdk.Prompt{Name: fmt.Sprint("new_", n)}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
				return &sdk.GetPromptResult{}, nil
			})
			select {
			case <-changed:
				told = true
			case <-time.After(time.Second):
			}
		}
		if prompts, err := c.Prompts(t.Context()); err != nil || len(prompts) != 1+n {
			t.Errorf("protocol %q: %d prompts, %v", protocol, len(prompts), err)
		}
	}
}

// What a server offers may change while a conversation goes on.
func TestAnAgentHasTheToolsThatTheServerHasNow(t *testing.T) {
	for _, protocol := range []string{"", old} {
		box := toolbox()
		c := connect(t, mcp.Config{Transport: closing(t, box.server).Local(), Protocol: protocol})
		a, err := agent.New(agent.ReAct[agent.State]{
			Model:  scripted.New(scripted.Call("swap", `{}`), scripted.Call("new_1", `{}`), scripted.Text("it is there")),
			Choose: func(ctx context.Context, _ *agent.State) ([]tool.Tool, error) { return c.Tools(ctx) },
		})
		if err != nil {
			t.Fatal(err)
		}
		snap, err := a.Invoke(t.Context(), agent.Ask[agent.State]("go"))
		if err != nil || snap.State.LastResponse.Get() != "it is there" {
			t.Errorf("protocol %q: %q, %v", protocol, snap.State.LastResponse.Get(), err)
		}
	}
}
