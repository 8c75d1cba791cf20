package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

type converseRequest struct {
	Messages []struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
	} `json:"messages"`
	System []json.RawMessage `json:"system"`
	Config *struct {
		MaxTokens   *int     `json:"maxTokens"`
		Temperature *float64 `json:"temperature"`
		TopP        *float64 `json:"topP"`
		Stop        []string `json:"stopSequences"`
	} `json:"inferenceConfig"`
	Tools *struct {
		Tools  []json.RawMessage          `json:"tools"`
		Choice map[string]json.RawMessage `json:"toolChoice"`
	} `json:"toolConfig"`
	Output *struct {
		Effort *string `json:"effort"`
		Format *struct {
			Type      string `json:"type"`
			Structure struct {
				Schema *struct {
					Schema      string  `json:"schema"`
					Name        *string `json:"name"`
					Description *string `json:"description"`
				} `json:"jsonSchema"`
			} `json:"structure"`
		} `json:"textFormat"`
	} `json:"outputConfig"`
	Own         json.RawMessage   `json:"additionalModelRequestFields"`
	Guardrail   json.RawMessage   `json:"guardrailConfig"`
	Metadata    map[string]string `json:"requestMetadata"`
	ServiceTier *struct {
		Type string `json:"type"`
	} `json:"serviceTier"`
}

type converseMedia struct {
	Name   *string `json:"name"` // of a document
	Format string  `json:"format"`
	Source struct {
		Bytes []byte `json:"bytes"`
		S3    *struct {
			URI string `json:"uri"`
		} `json:"s3Location"`
	} `json:"source"`
}

type converseBlock struct {
	Text     *string        `json:"text"`
	Image    *converseMedia `json:"image"`
	Document *converseMedia `json:"document"`
	Video    *converseMedia `json:"video"`
	Audio    *converseMedia `json:"audio"`
	ToolUse  *struct {
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Type  *string         `json:"type"`
		Input json.RawMessage `json:"input"`
	} `json:"toolUse"`
	ToolResult *struct {
		ID      string             `json:"toolUseId"`
		Content *[]json.RawMessage `json:"content"`
		Status  *string            `json:"status"`
		Type    *string            `json:"type"`
	} `json:"toolResult"`
	Reasoning *struct {
		Text *struct {
			Text      *string `json:"text"`
			Signature *string `json:"signature"`
		} `json:"reasoningText"`
		Redacted []byte `json:"redactedContent"`
	} `json:"reasoningContent"`
	Cache *struct {
		Type string  `json:"type"`
		TTL  *string `json:"ttl"`
	} `json:"cachePoint"`
}

var converseFormats = map[string][]string{
	"image": {"png", "jpeg", "gif", "webp"}, "document": {"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"},
	"video": {"mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"}, "audio": {"mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "m4a", "webm"},
}

var (
	converseID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	documentName = regexp.MustCompile(`^[A-Za-z0-9()\[\]-]+( [A-Za-z0-9()\[\]-]+)*$`)
)

// conversing is what a check of a request to Converse remembers.
type conversing struct {
	open   calls
	names  []string // of documents
	points int
	tools  bool // there are calls or results
}

// block checks a block and returns its kind.
func (c *conversing) block(raw json.RawMessage, kinds string) (b converseBlock, kind string, err error) {
	if err := decode(raw, &b); err != nil {
		return b, "", err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || len(fields) != 1 {
		return b, "", fmt.Errorf("a block of %d things", len(fields))
	}
	for kind = range fields {
		if !slices.Contains(strings.Fields(kinds), kind) {
			return b, kind, fmt.Errorf("a block of %s", kind)
		}
	}
	switch {
	case b.Text != nil && strings.TrimSpace(*b.Text) == "":
		err = errors.New("the text field in the ContentBlock object is blank")
	case b.Cache != nil:
		if c.points++; c.points > 4 || b.Cache.Type != "default" || b.Cache.TTL != nil && *b.Cache.TTL != "5m" && *b.Cache.TTL != "1h" {
			err = fmt.Errorf("cachePoint %d: %s", c.points, raw)
		}
	case b.ToolUse != nil:
		c.tools = true
		if !converseID.MatchString(b.ToolUse.ID) || !functionName.MatchString(b.ToolUse.Name) || object(b.ToolUse.Input) != nil {
			err = fmt.Errorf("the call %s", raw)
		}
	case b.Reasoning != nil:
		if t := b.Reasoning.Text; (t == nil) == (b.Reasoning.Redacted == nil) || t != nil && (t.Text == nil || t.Signature == nil) {
			err = fmt.Errorf("reasoning %s", raw)
		}
	case b.ToolResult != nil:
		c.tools = true
		if b.ToolResult.Content == nil || b.ToolResult.Status != nil && *b.ToolResult.Status != "error" && *b.ToolResult.Status != "success" {
			return b, kind, fmt.Errorf("the result %s", raw)
		}
		for _, inner := range *b.ToolResult.Content {
			if _, _, err := c.block(inner, "text json image document video"); err != nil {
				return b, kind, err
			}
		}
	case b.Text == nil:
		for name, m := range map[string]*converseMedia{"image": b.Image, "document": b.Document, "video": b.Video, "audio": b.Audio} {
			if m == nil {
				continue
			}
			named := m.Name != nil && documentName.MatchString(*m.Name) && len(*m.Name) <= 200
			switch {
			case !slices.Contains(converseFormats[name], m.Format) || (len(m.Source.Bytes) > 0) == (m.Source.S3 != nil):
				err = fmt.Errorf("the %s %s", name, raw)
			case m.Name != nil != (name == "document") || name == "document" && !named:
				err = fmt.Errorf("the name in %s", raw)
			case name == "document" && slices.Contains(c.names, *m.Name):
				err = errors.New("messages contain duplicate document file names")
			case name == "document":
				c.names = append(c.names, *m.Name)
			}
		}
	}
	return b, kind, err
}

// blocks checks the blocks of a list, and where its cachePoints are.
func (c *conversing) blocks(list []json.RawMessage, kinds string, each func(converseBlock) error) error {
	before := ""
	document, said := false, false
	for _, raw := range list {
		b, kind, err := c.block(raw, kinds)
		if err == nil && kind == "cachePoint" && (before == "" || before == kind || before == "reasoningContent") {
			err = fmt.Errorf("a cachePoint after %q", before)
		}
		if err == nil && each != nil {
			err = each(b)
		}
		if err != nil {
			return err
		}
		before, document, said = kind, document || b.Document != nil, said || b.Text != nil
	}
	if document && !said {
		return errors.New("a document without a text")
	}
	return nil
}

// converse checks the body of a request to Converse or ConverseStream.
func converse(body []byte) error {
	var q converseRequest
	if err := decode(body, &q); err != nil {
		return err
	}
	var c conversing
	if err := q.toolConfig(&c); err != nil {
		return err
	}
	if err := c.blocks(q.System, "text cachePoint", nil); err != nil {
		return fmt.Errorf("system: %w", err)
	}
	if g := q.Config; g != nil && (g.MaxTokens != nil && *g.MaxTokens < 1 || g.Temperature != nil && (*g.Temperature < 0 || *g.Temperature > 1)) {
		return errors.New("inferenceConfig")
	}
	if o := q.Output; o != nil {
		if o.Effort != nil && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, *o.Effort) {
			return fmt.Errorf("the effort %q", *o.Effort)
		}
		if f := o.Format; f != nil && (f.Type != "json_schema" || f.Structure.Schema == nil || object(json.RawMessage(f.Structure.Schema.Schema)) != nil) {
			return errors.New("the textFormat")
		}
	}
	if q.Own != nil && object(q.Own) != nil {
		return errors.New("additionalModelRequestFields")
	}
	if len(q.Messages) == 0 || q.Messages[0].Role != "user" {
		return errors.New("a conversation must start with a user message")
	}
	for i, m := range q.Messages {
		if i > 0 && m.Role == q.Messages[i-1].Role {
			return fmt.Errorf("messages %d and %d are of one role", i-1, i)
		}
		kinds := map[string]string{"user": "text image document video audio toolResult cachePoint", "assistant": "text toolUse reasoningContent cachePoint"}[m.Role]
		if kinds == "" || len(m.Content) == 0 {
			return fmt.Errorf("the role %q with %d blocks", m.Role, len(m.Content))
		}
		results := true
		err := c.blocks(m.Content, kinds, func(b converseBlock) error {
			switch {
			case b.ToolUse != nil:
				return c.open.add(b.ToolUse.ID)
			case b.ToolResult != nil && !results:
				return errors.New("a result after something else")
			case b.ToolResult != nil:
				return c.open.answer(b.ToolResult.ID)
			}
			results = results && b.Cache != nil
			return nil
		})
		if err == nil && m.Role == "user" {
			err = c.open.closed()
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if c.tools && q.Tools == nil {
		return errors.New("the toolConfig field must be defined when using toolUse and toolResult content blocks")
	}
	return c.open.closed()
}

func (q converseRequest) toolConfig(c *conversing) error {
	if q.Tools == nil {
		return nil
	}
	var names []string
	for i, raw := range q.Tools.Tools {
		var t struct {
			Spec *struct {
				Name        string  `json:"name"`
				Description *string `json:"description"`
				InputSchema struct {
					JSON json.RawMessage `json:"json"`
				} `json:"inputSchema"`
				Strict *bool `json:"strict"`
			} `json:"toolSpec"`
			System *struct {
				Name string `json:"name"`
			} `json:"systemTool"`
			Cache json.RawMessage `json:"cachePoint"`
		}
		if err := decode(raw, &t); err != nil {
			return err
		}
		switch {
		case t.Cache != nil && i > 0:
			if _, _, err := c.block(raw, "cachePoint"); err != nil {
				return err
			}
		case t.System != nil:
		case t.Spec == nil:
			return fmt.Errorf("the tool %s", raw)
		default:
			var schema struct{ Type string }
			if s := t.Spec; !functionName.MatchString(s.Name) || s.Description != nil && *s.Description == "" || json.Unmarshal(s.InputSchema.JSON, &schema) != nil || schema.Type != "object" || slices.Contains(names, s.Name) {
				return fmt.Errorf("the tool %s", raw)
			}
			names = append(names, t.Spec.Name)
		}
	}
	if len(q.Tools.Tools) == 0 || len(q.Tools.Choice) > 1 {
		return errors.New("toolConfig has no tools or several choices")
	}
	for kind, raw := range q.Tools.Choice {
		var choice struct {
			Name *string `json:"name"`
		}
		if err := decode(raw, &choice); err != nil {
			return err
		}
		if ok := kind == "tool" && choice.Name != nil && slices.Contains(names, *choice.Name) || (kind == "auto" || kind == "any") && choice.Name == nil; !ok {
			return fmt.Errorf("toolChoice %s %s", kind, raw)
		}
	}
	return nil
}
