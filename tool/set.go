package tool

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/internal/plan"
)

// Set is a list of tools with different names. It doesn't change and is safe for
// concurrent use.
type Set struct {
	tools  []Tool
	specs  []chat.ToolSpec
	byName map[string]Tool
}

// NewSet returns the set of some tools. What is wrong with them, all of it, is a
// [*DefinitionError]: nil tools, names that are used twice, and what [Check]
// finds.
func NewSet(tools ...Tool) (*Set, error) {
	s := &Set{byName: make(map[string]Tool, len(tools))}
	first := make(map[string]int, len(tools))
	var d DefinitionError
	for i, t := range tools {
		if isNil(t) {
			d.add("", fmt.Errorf("the tool at index %d is nil", i))
			continue
		}
		d.add("", Check(t))
		spec := t.Spec()
		if j, ok := first[spec.Name]; ok && spec.Name != "" {
			d.add(spec.Name, fmt.Errorf("the tools at index %d and %d have the same name", j, i))
			continue
		}
		first[spec.Name] = i
		s.tools = append(s.tools, t)
		s.specs = append(s.specs, spec)
		s.byName[spec.Name] = t
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// Len returns the number of tools.
func (s *Set) Len() int { return len(s.tools) }

// Specs describes the tools to models, in the order in which they were given.
func (s *Set) Specs() []chat.ToolSpec { return slices.Clone(s.specs) }

// Tools returns the tools in the order in which they were given.
func (s *Set) Tools() []Tool { return slices.Clone(s.tools) }

// Get returns the tool of that name. For a name that no tool has it returns an
// [*Error] of the kind [ErrorUnknown] that names the nearest.
func (s *Set) Get(name string) (Tool, error) {
	if t, ok := s.byName[name]; ok {
		return t, nil
	}
	names := make([]string, len(s.specs))
	for i := range s.specs {
		names[i] = s.specs[i].Name
	}
	return nil, Unknown(name, names)
}

// maxNames bounds how many names an error lists.
const maxNames = 5

// Unknown returns the [*Error] of the kind [ErrorUnknown] that says that no tool
// has that name, and which of the tools that exist have the nearest names.
func Unknown(name string, names []string) *Error {
	e := &Error{Tool: name, Kind: ErrorUnknown}
	if len(names) == 0 {
		e.Err = errors.New("there are no tools")
		return e
	}
	ranked := rank(name, names)
	text := "the tools are "
	if len(ranked) > maxNames {
		ranked = ranked[:maxNames]
		text = fmt.Sprintf("the nearest of %d tools are ", len(names))
	} else if len(ranked) == 1 {
		text = "the only tool is "
	}
	for i, n := range ranked {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%q", n)
	}
	e.Err = errors.New(text)
	return e
}

// rank orders names by their distance to name; equals stay in order.
func rank(name string, names []string) []string {
	type ranked struct {
		name string
		d    int
	}
	list := make([]ranked, len(names))
	key := fold(name)
	for i, n := range names {
		list[i] = ranked{n, plan.Distance(key, fold(n))}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.d, b.d) })
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = r.name
	}
	return out
}

// fold makes names that differ in case and separators alone the same. A model's
// name may be of any length; what is compared isn't.
func fold(s string) string {
	r := []rune(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s))
	return string(r[:min(len(r), 2*maxName)])
}
