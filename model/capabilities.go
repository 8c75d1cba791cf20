package model

import (
	"maps"
	"strings"
)

// Capabilities are what a model takes and gives.
type Capabilities struct {
	// Provider is whose API the model is asked by, such as "anthropic", and Name which model
	// that is. They are said also where nothing else is known; empty: not known.
	Provider, Name string

	Images, Audio, Files bool // that it takes, in messages of the user

	Tools           bool
	Schema          bool // an answer in the form of [Request.Output]
	SchemaWithTools bool // also in a request that has tools
	Reasoning       bool
	Caching         bool // of prompts

	Context   int // tokens of a request and its answer; 0: not known
	MaxOutput int // tokens of an answer; 0: not known

	Prices Prices // zero: not known
}

// Capable is a [Model] that says what it takes and gives. The models of the providers'
// packages do, and what wraps one in this package says what that says.
type Capable interface {
	// Capabilities returns those of the model with a name ([Config.Model]), or of the
	// model's own if that is empty. Known is false where nothing is said of it.
	Capabilities(name string) (c Capabilities, known bool)
}

// CapabilitiesOf returns what a model says of itself; see [Capable].
func CapabilitiesOf(m Model, name string) (c Capabilities, known bool) {
	if able, ok := m.(Capable); ok {
		return able.Capabilities(name)
	}
	return Capabilities{}, false
}

// WithCapabilities returns a model that says it has these capabilities, by whatever
// name: for one that a program makes itself.
func WithCapabilities(m Model, c Capabilities) Model { return able{m, c} }

type able struct {
	Model
	c Capabilities
}

func (a able) Capabilities(string) (Capabilities, bool) { return a.c, true }

// Capabilities implement [Capable] for what wraps a model.
func (r *retrier) Capabilities(name string) (Capabilities, bool)  { return CapabilitiesOf(r.m, name) }
func (r *limited) Capabilities(name string) (Capabilities, bool)  { return CapabilitiesOf(r.m, name) }
func (c *cached) Capabilities(name string) (Capabilities, bool)   { return CapabilitiesOf(c.m, name) }
func (g *budgeted) Capabilities(name string) (Capabilities, bool) { return CapabilitiesOf(g.m, name) }
func (g *logged) Capabilities(name string) (Capabilities, bool)   { return CapabilitiesOf(g.m, name) }

// Capabilities returns what each of the models has: any may answer. Prices are those
// of the first.
func (f *fallback) Capabilities(name string) (Capabilities, bool) {
	all, ok := CapabilitiesOf(f.models[0], name)
	for _, m := range f.models[1:] {
		c, known := CapabilitiesOf(m, name)
		if ok = ok && known; !ok {
			return Capabilities{}, false
		}
		if c.Provider != all.Provider {
			all.Provider = ""
		}
		if c.Name != all.Name {
			all.Name = ""
		}
		all.Images, all.Audio, all.Files = all.Images && c.Images, all.Audio && c.Audio, all.Files && c.Files
		all.Tools, all.Schema, all.SchemaWithTools = all.Tools && c.Tools, all.Schema && c.Schema, all.SchemaWithTools && c.SchemaWithTools
		all.Reasoning, all.Caching = all.Reasoning && c.Reasoning, all.Caching && c.Caching
		all.Context, all.MaxOutput = least(all.Context, c.Context), least(all.MaxOutput, c.MaxOutput)
	}
	return all, ok
}

// least returns the lesser of two limits, of which 0 is none that is known.
func least(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	return min(a, b)
}

// Table has the capabilities of models by name. An entry holds for all names that
// begin with its own and go on, if they do, with a "-", ":", "@" or ".": dates, sizes
// and versions. Of several the longest holds. What a router puts before a name, up to
// the last "/", doesn't count, and neither does what Bedrock puts before the name of a model
// of Anthropic's or Amazon's.
//
// A program that knows better gives the providers a table of its own:
//
//	t := model.KnownModels()
//	t["our-model"] = model.Capabilities{Tools: true, Context: 32_768, Prices: model.Prices{Free: true}}
//	m := openai.New("our-model", openai.Capabilities(t))
type Table map[string]Capabilities

// Of returns the entry for a name.
func (t Table) Of(name string) (c Capabilities, known bool) {
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	for _, vendor := range []string{"anthropic.", "amazon."} {
		if _, after, ok := strings.Cut(name, vendor); ok {
			name = after
		}
	}
	for end := len(name); end > 0; end = strings.LastIndexAny(name[:end], "-:@.") {
		if c, known = t[name[:end]]; known {
			return c, true
		}
	}
	return Capabilities{}, false
}

// Named is Of for a provider's model, which has its name whether there is an entry or not.
func (t Table) Named(provider, name string) (c Capabilities, known bool) {
	c, known = t.Of(name)
	c.Provider, c.Name = provider, name
	return c, known
}

// Prices returns the prices of models, by the names that are given, such as those in
// the usage of an agent. A name whose price isn't known is left out.
func (t Table) Prices(names ...string) map[string]Prices {
	out := map[string]Prices{}
	for _, name := range names {
		if c, ok := t.Of(name); ok && c.Prices.known() {
			out[name] = c.Prices
		}
	}
	return out
}

// KnownModels returns a new table of the models that this version knows: what their
// vendors said of them in November 2025, prices in dollars for a million tokens. Prices
// change and depend on the length of the request and the tier: where money counts,
// check them and put your own in.
func KnownModels() Table { return maps.Clone(known) }

// The kinds of models, by what they take and give.
var (
	sees  = Capabilities{Images: true, Files: true, Tools: true, Schema: true, SchemaWithTools: true, Caching: true}
	reads = Capabilities{Tools: true, Schema: true, SchemaWithTools: true, Caching: true}
	// Claude has schemas since 4.5; before, it is asked by a tool.
	claude = Capabilities{Images: true, Files: true, Tools: true, Caching: true}
	// Gemini refuses a schema beside functions before its third version.
	gemini = Capabilities{Images: true, Audio: true, Files: true, Tools: true, Schema: true, Caching: true}
	nova   = Capabilities{Images: true, Files: true, Tools: true, Caching: true}
	// Open models, by the servers that run them.
	open       = Capabilities{Tools: true, Schema: true}
	openVision = Capabilities{Images: true, Schema: true}
)

var known = Table{
	"gpt-5":         sees.thinks().of(400_000, 128_000, 1.25, 10, 0.125),
	"gpt-5-pro":     sees.thinks().of(400_000, 272_000, 15, 120, 0),
	"gpt-5-mini":    sees.thinks().of(400_000, 128_000, 0.25, 2, 0.025),
	"gpt-5-nano":    sees.thinks().of(400_000, 128_000, 0.05, 0.4, 0.005),
	"gpt-4.1":       sees.of(1_047_576, 32_768, 2, 8, 0.5),
	"gpt-4.1-mini":  sees.of(1_047_576, 32_768, 0.4, 1.6, 0.1),
	"gpt-4.1-nano":  sees.of(1_047_576, 32_768, 0.1, 0.4, 0.025),
	"gpt-4o":        sees.of(128_000, 16_384, 2.5, 10, 1.25),
	"gpt-4o-mini":   sees.of(128_000, 16_384, 0.15, 0.6, 0.075),
	"gpt-4o-audio":  Capabilities{Audio: true, Tools: true}.of(128_000, 16_384, 2.5, 10, 0),
	"gpt-3.5-turbo": Capabilities{Tools: true}.of(16_385, 4_096, 0.5, 1.5, 0),
	"o3":            sees.thinks().of(200_000, 100_000, 2, 8, 0.5),
	"o3-pro":        sees.thinks().of(200_000, 100_000, 20, 80, 0),
	"o3-mini":       reads.thinks().of(200_000, 100_000, 1.1, 4.4, 0.55),
	"o4-mini":       sees.thinks().of(200_000, 100_000, 1.1, 4.4, 0.275),

	"claude-opus-4-5":   claude.schema().thinks().of(200_000, 64_000, 5, 25, 0.5).writes(),
	"claude-opus-4-1":   claude.schema().thinks().of(200_000, 32_000, 15, 75, 1.5).writes(),
	"claude-opus-4":     claude.thinks().of(200_000, 32_000, 15, 75, 1.5).writes(),
	"claude-sonnet-4-5": claude.schema().thinks().of(200_000, 64_000, 3, 15, 0.3).writes(),
	"claude-sonnet-4":   claude.thinks().of(200_000, 64_000, 3, 15, 0.3).writes(),
	"claude-haiku-4-5":  claude.schema().thinks().of(200_000, 64_000, 1, 5, 0.1).writes(),
	"claude-3-7-sonnet": claude.thinks().of(200_000, 64_000, 3, 15, 0.3).writes(),
	"claude-3-5-haiku":  claude.of(200_000, 8_192, 0.8, 4, 0.08).writes(),

	"gemini-3-pro":          gemini.schema().thinks().of(1_048_576, 65_536, 2, 12, 0.2),
	"gemini-2.5-pro":        gemini.thinks().of(1_048_576, 65_536, 1.25, 10, 0.125),
	"gemini-2.5-flash":      gemini.thinks().of(1_048_576, 65_536, 0.3, 2.5, 0.03),
	"gemini-2.5-flash-lite": gemini.thinks().of(1_048_576, 65_536, 0.1, 0.4, 0.01),
	"gemini-2.0-flash":      gemini.of(1_048_576, 8_192, 0.1, 0.4, 0.025),

	"nova-pro":   nova.of(300_000, 10_000, 0.8, 3.2, 0.2),
	"nova-lite":  nova.of(300_000, 10_000, 0.06, 0.24, 0.015),
	"nova-micro": Capabilities{Tools: true, Caching: true}.of(128_000, 10_000, 0.035, 0.14, 0.00875),

	"deepseek-chat":     Capabilities{Tools: true, Caching: true}.of(128_000, 8_192, 0.28, 0.42, 0.028),
	"deepseek-reasoner": Capabilities{Tools: true, Caching: true}.thinks().of(128_000, 65_536, 0.28, 0.42, 0.028),

	// Models that a server of one's own runs. Their context is what that allows.
	"llama3.1": open, "llama3.2": open, "llama3.3": open, "mistral": open, "qwen2.5": open,
	"qwen3": open.thinks(), "gpt-oss": open.thinks(), "deepseek-r1": Capabilities{Schema: true}.thinks(),
	"llama3.2-vision": openVision, "llava": openVision, "gemma3": openVision,
}

func (c Capabilities) thinks() Capabilities { c.Reasoning = true; return c }
func (c Capabilities) schema() Capabilities { c.Schema, c.SchemaWithTools = true, true; return c }

func (c Capabilities) of(context, output int, in, out, read float64) Capabilities {
	c.Context, c.MaxOutput = context, output
	c.Prices = Prices{Input: in, Output: out, CacheRead: read}
	return c
}

// writes has the price of writing to the cache, which Anthropic asks for.
func (c Capabilities) writes() Capabilities {
	c.Prices.CacheWrite = c.Prices.Input * 5 / 4
	return c
}
