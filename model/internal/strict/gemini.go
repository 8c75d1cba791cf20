package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

type geminiRequest struct {
	Contents          []geminiContent   `json:"contents"`
	SystemInstruction *geminiContent    `json:"systemInstruction"`
	Tools             []json.RawMessage `json:"tools"`
	ToolConfig        *struct {
		FunctionCallingConfig *struct {
			Mode                 string   `json:"mode"`
			AllowedFunctionNames []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	GenerationConfig *struct {
		Temperature        *float64        `json:"temperature"`
		TopP               *float64        `json:"topP"`
		TopK               *int            `json:"topK"`
		CandidateCount     *int            `json:"candidateCount"`
		MaxOutputTokens    *int32          `json:"maxOutputTokens"`
		StopSequences      []string        `json:"stopSequences"`
		Seed               *int32          `json:"seed"`
		FrequencyPenalty   *float64        `json:"frequencyPenalty"`
		PresencePenalty    *float64        `json:"presencePenalty"`
		ResponseMIMEType   *string         `json:"responseMimeType"`
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		ResponseModalities []string        `json:"responseModalities"`
		ThinkingConfig     *struct {
			IncludeThoughts *bool   `json:"includeThoughts"`
			ThinkingBudget  *int32  `json:"thinkingBudget"`
			ThinkingLevel   *string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
	CachedContent *string `json:"cachedContent"`
}

type geminiContent struct {
	Role  *string      `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text       *string `json:"text"`
	InlineData *struct {
		Data     []byte `json:"data"`
		MIMEType string `json:"mimeType"`
	} `json:"inlineData"`
	FileData *struct {
		FileURI  string  `json:"fileUri"`
		MIMEType *string `json:"mimeType"`
	} `json:"fileData"`
	FunctionCall *struct {
		ID   string         `json:"id"`
		Name string         `json:"name"`
		Args map[string]any `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		ID       string         `json:"id"`
		Name     string         `json:"name"`
		Response map[string]any `json:"response"`
		Parts    []geminiPart   `json:"parts"`
	} `json:"functionResponse"`
	ExecutableCode *struct {
		ID       *string `json:"id"`
		Language string  `json:"language"`
		Code     string  `json:"code"`
	} `json:"executableCode"`
	CodeExecutionResult *struct {
		ID      *string `json:"id"`
		Outcome string  `json:"outcome"`
		Output  *string `json:"output"`
	} `json:"codeExecutionResult"`
	Thought          *bool  `json:"thought"`
	ThoughtSignature []byte `json:"thoughtSignature"`
}

var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`)

// Gemini checks a request to the Gemini API.
func Gemini(r *http.Request, body []byte) error {
	var q geminiRequest
	if err := decode(body, &q); err != nil {
		return err
	}
	streams := strings.HasSuffix(r.URL.Path, ":streamGenerateContent") && r.URL.RawQuery == "alt=sse"
	switch {
	case r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/v1beta/models/") || !streams && !strings.HasSuffix(r.URL.Path, ":generateContent"):
		return fmt.Errorf("%s %s", r.Method, r.URL)
	case r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Goog-Api-Key") == "":
		return errors.New("the headers")
	case len(q.Contents) == 0 || q.Contents[0].Role == nil || *q.Contents[0].Role != "user":
		return errors.New("the first content is not the user's")
	}
	if g := q.GenerationConfig; g != nil {
		switch {
		case len(g.StopSequences) > 5:
			return errors.New("more than five stops")
		case g.ResponseJSONSchema != nil && (object(g.ResponseJSONSchema) != nil || g.ResponseMIMEType == nil || *g.ResponseMIMEType != "application/json"):
			return errors.New("a schema without its type")
		case g.ThinkingConfig != nil && g.ThinkingConfig.ThinkingBudget != nil && g.ThinkingConfig.ThinkingLevel != nil:
			return errors.New("a budget and a level of thinking")
		case g.ThinkingConfig != nil && g.ThinkingConfig.ThinkingLevel != nil && !slices.Contains([]string{"MINIMAL", "LOW", "MEDIUM", "HIGH"}, *g.ThinkingConfig.ThinkingLevel):
			return errors.New("the level of thinking")
		}
	}
	if err := q.tools(); err != nil {
		return err
	}
	if s := q.SystemInstruction; s != nil {
		for _, p := range s.Parts {
			if p.Text == nil || *p.Text == "" {
				return errors.New("an instruction that is no text")
			}
		}
	}
	var open calls
	for i, c := range q.Contents {
		if c.Role == nil || !slices.Contains([]string{"user", "model"}, *c.Role) || i > 0 && *c.Role == *q.Contents[i-1].Role {
			return fmt.Errorf("the role of content %d", i)
		}
		if err := c.check(&open); err != nil {
			return fmt.Errorf("content %d: %w", i, err)
		}
	}
	return open.closed()
}

func (q geminiRequest) tools() error {
	var names []string
	for _, raw := range q.Tools {
		var t struct {
			FunctionDeclarations []struct {
				Name                 string          `json:"name"`
				Description          *string         `json:"description"`
				ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
			GoogleSearch  *struct{} `json:"googleSearch"`
			CodeExecution *struct{} `json:"codeExecution"`
			URLContext    *struct{} `json:"urlContext"`
		}
		if err := decode(raw, &t); err != nil {
			return err
		}
		for _, f := range t.FunctionDeclarations {
			if !geminiName.MatchString(f.Name) || f.ParametersJSONSchema != nil && object(f.ParametersJSONSchema) != nil {
				return fmt.Errorf("the function %+v", f)
			}
			names = append(names, f.Name)
		}
	}
	if q.ToolConfig == nil {
		return nil
	}
	c := q.ToolConfig.FunctionCallingConfig
	if c == nil || len(names) == 0 || !slices.Contains([]string{"AUTO", "ANY", "NONE", "VALIDATED"}, c.Mode) {
		return errors.New("toolConfig")
	}
	for _, n := range c.AllowedFunctionNames {
		if c.Mode != "ANY" || !slices.Contains(names, n) {
			return fmt.Errorf("the allowed function %q", n)
		}
	}
	return nil
}

func (c geminiContent) check(open *calls) error {
	if len(c.Parts) == 0 {
		return errors.New("no parts")
	}
	results := true
	for _, p := range c.Parts {
		n := 0
		for _, has := range []bool{p.Text != nil, p.InlineData != nil, p.FileData != nil, p.FunctionCall != nil, p.FunctionResponse != nil, p.ExecutableCode != nil, p.CodeExecutionResult != nil} {
			if has {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("a part that is %d things", n)
		}
		var err error
		switch {
		case *c.Role == "user" && (p.FunctionCall != nil || p.Thought != nil || p.ThoughtSignature != nil || p.ExecutableCode != nil || p.CodeExecutionResult != nil):
			err = errors.New("what only the model says")
		case p.FunctionCall != nil:
			if !geminiName.MatchString(p.FunctionCall.Name) {
				return fmt.Errorf("a call of %q", p.FunctionCall.Name)
			}
			err = open.add(p.FunctionCall.ID)
		case p.FunctionResponse != nil && (*c.Role != "user" || !results || !geminiName.MatchString(p.FunctionResponse.Name) || p.FunctionResponse.Response == nil):
			err = errors.New("a result at a wrong place, without a name or a response")
		case p.FunctionResponse != nil:
			err = open.answer(p.FunctionResponse.ID)
		case p.InlineData != nil && (p.InlineData.MIMEType == "" || len(p.InlineData.Data) == 0), p.FileData != nil && p.FileData.FileURI == "":
			err = errors.New("data without its type, or at no place")
		}
		if err != nil {
			return err
		}
		results = results && p.FunctionResponse != nil
	}
	if *c.Role == "user" {
		return open.closed()
	}
	return nil
}
