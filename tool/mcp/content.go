package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
)

// metaTranscript carries an audio part's transcript, for which the protocol has
// no place.
const metaTranscript = "transcript"

// partsOf returns a result's content as parts. A resource that is text, and a
// link to a resource, become text that names the resource.
func partsOf(content []sdk.Content) ([]chat.Part, error) {
	var parts []chat.Part
	for i, c := range content {
		p, err := partOf(c)
		if err != nil {
			return nil, fmt.Errorf("content %d of the result: %w", i, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func partOf(c sdk.Content) (chat.Part, error) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return chat.Text{Text: c.Text}, nil
	case *sdk.ImageContent:
		return chat.Image{Source: chat.Source{Data: c.Data, MIME: c.MIMEType}}, nil
	case *sdk.AudioContent:
		transcript, _ := c.Meta[metaTranscript].(string)
		return chat.Audio{Source: chat.Source{Data: c.Data, MIME: c.MIMEType}, Transcript: transcript}, nil
	case *sdk.ResourceLink:
		return chat.Text{Text: linkText(c)}, nil
	case *sdk.EmbeddedResource:
		r := c.Resource
		if r == nil {
			return nil, errors.New("a resource that is missing")
		}
		return resourcePart(r), nil
	}
	return nil, fmt.Errorf("unsupported content %T", c)
}

// resourcePart returns a resource as a part: text names the resource.
func resourcePart(r *sdk.ResourceContents) chat.Part {
	if r.Blob == nil {
		return chat.Text{Text: fmt.Sprintf("[resource %s]\n%s", words(r.URI, r.MIMEType), r.Text)}
	}
	source := chat.Source{Data: r.Blob, MIME: r.MIMEType}
	switch kind, _, _ := strings.Cut(r.MIMEType, "/"); kind {
	case "image":
		return chat.Image{Source: source}
	case "audio":
		return chat.Audio{Source: source}
	}
	return chat.File{Source: source, Name: baseName(r.URI)}
}

func linkText(l *sdk.ResourceLink) string {
	text := fmt.Sprintf("[resource link %s]", words(l.URI, l.Name, l.MIMEType))
	if l.Description != "" {
		text += " " + l.Description
	}
	return text
}

func words(list ...string) string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}

// baseName is the last part of a resource's path.
func baseName(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Path == "" {
		return uri
	}
	return path.Base(u.Path)
}

// resultOf returns a tool's result for a client that speaks this version.
func resultOf(r tool.Result, version string) (*sdk.CallToolResult, error) {
	out := &sdk.CallToolResult{Content: []sdk.Content{}}
	for i, p := range r.Content {
		c, err := contentOf(p)
		if err != nil {
			return nil, fmt.Errorf("part %d of the result: %w", i, err)
		}
		out.Content = append(out.Content, c)
	}
	if r.Artifact != nil {
		if !json.Valid(r.Artifact) {
			return nil, errors.New("the result's artifact isn't JSON")
		}
		artifact := r.Artifact
		if version < modern && !isObject(artifact) { // which older versions insist on
			artifact = append(append(json.RawMessage(`{"result":`), artifact...), '}')
		}
		out.StructuredContent = artifact
	}
	return out, nil
}

func isObject(data json.RawMessage) bool {
	return strings.HasPrefix(strings.TrimSpace(string(data)), "{")
}

func contentOf(p chat.Part) (sdk.Content, error) {
	switch p := p.(type) {
	case chat.Text:
		return &sdk.TextContent{Text: p.Text}, nil
	case chat.Image:
		if p.Data != nil {
			return &sdk.ImageContent{Data: p.Data, MIMEType: p.MIME}, nil
		}
		return linkTo(p.Source, "image")
	case chat.Audio:
		if p.Data != nil {
			c := &sdk.AudioContent{Data: p.Data, MIMEType: p.MIME}
			if p.Transcript != "" {
				c.Meta = sdk.Meta{metaTranscript: p.Transcript}
			}
			return c, nil
		}
		return linkTo(p.Source, "audio")
	case chat.File:
		name := p.Name
		if name == "" {
			name = "file"
		}
		if p.Data != nil {
			uri := (&url.URL{Scheme: "attachment", Path: "/" + name}).String()
			return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: p.MIME, Blob: p.Data}}, nil
		}
		return linkTo(p.Source, name)
	}
	return nil, fmt.Errorf("a tool can't return a %T", p)
}

func linkTo(s chat.Source, name string) (sdk.Content, error) {
	if s.URL == "" {
		return nil, errors.New("it has neither data nor a URL; a file that was uploaded to a provider can't be passed on")
	}
	return &sdk.ResourceLink{URI: s.URL, Name: name, MIMEType: s.MIME}, nil
}
