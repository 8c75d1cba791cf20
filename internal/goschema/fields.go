// Package goschema infers JSON Schemas of Go types, as encoding/json reads and writes
// these, and says what is wrong with JSON that is to be as a schema has it, and where.
package goschema

import (
	"encoding"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"time"
	"unicode"
)

var (
	timeType            = reflect.TypeFor[time.Time]()
	levelType           = reflect.TypeFor[slog.Level]()
	numberType          = reflect.TypeFor[json.Number]()
	marshalerType       = reflect.TypeFor[json.Marshaler]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// ownJSON reports whether a type reads its JSON itself or, unless it is only read, writes it.
func ownJSON(t reflect.Type, read bool) bool {
	p := reflect.PointerTo(t) // has the methods of t as well
	return p.Implements(unmarshalerType) || !read && p.Implements(marshalerType)
}

// ownText is ownJSON for the text that the JSON of a type is.
func ownText(t reflect.Type, read bool) bool {
	p := reflect.PointerTo(t)
	return p.Implements(textUnmarshalerType) || !read && p.Implements(textMarshalerType)
}

func opaque(t reflect.Type, read bool) bool {
	return t == numberType || ownJSON(t, read) || ownText(t, read)
}

// Opaque reports whether the kind of a type doesn't tell its JSON.
func Opaque(t reflect.Type) bool { return opaque(t, false) }

// Tag is a field's json tag.
type Tag struct {
	Name   string
	Named  bool // by the tag
	Skip   bool
	Omit   bool // by the options omitempty or omitzero
	Quoted bool // by the option "string"
}

// ParseTag reads the json tag of a field.
func ParseTag(sf reflect.StructField) Tag {
	text := sf.Tag.Get("json")
	if text == "-" {
		return Tag{Name: sf.Name, Skip: true}
	}
	name, options, _ := strings.Cut(text, ",")
	t := Tag{Name: sf.Name}
	if name != "" && validName(name) {
		t.Name, t.Named = name, true
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			t.Omit = true
		case "string":
			t.Quoted = true
		}
	}
	return t
}

// validName reports whether encoding/json takes a name from a tag.
func validName(name string) bool {
	for _, c := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return true
}

// Quotable reports whether encoding/json heeds the tag option "string".
func Quotable(t reflect.Type) bool { return quotable(t, false) }

func quotable(t reflect.Type, read bool) bool {
	k := t.Kind()
	return (k == reflect.String || k >= reflect.Bool && k <= reflect.Float64) && !opaque(t, read)
}

// structField is a field of a struct, or of one embedded in it.
type structField struct {
	reflect.StructField
	tag   Tag
	depth int
	loose bool   // it may be missing, as a struct that it is in is behind a pointer
	twin  string // the Go name of another that has the same JSON name, so that JSON has neither
}

// jsonFields returns the fields of a struct that are members of its JSON: of those that have
// one name, the one that is embedded least deep or, of several, the one that a tag names.
func jsonFields(t reflect.Type) []structField {
	var list []structField
	byName := map[string]int{}
	open := map[reflect.Type]bool{}
	var walk func(t reflect.Type, depth int, loose bool)
	walk = func(t reflect.Type, depth int, loose bool) {
		if open[t] {
			return
		}
		open[t] = true
		defer delete(open, t)
		for i := range t.NumField() {
			f := structField{StructField: t.Field(i), depth: depth, loose: loose}
			f.tag = ParseTag(f.StructField)
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			embedded := f.Anonymous && of.Kind() == reflect.Struct
			switch {
			case f.tag.Skip || !f.IsExported() && !embedded:
				continue
			case embedded && !f.tag.Named:
				walk(of, depth+1, loose || of != f.Type)
				continue
			}
			at, again := byName[f.tag.Name]
			switch {
			case !again:
				byName[f.tag.Name] = len(list)
				list = append(list, f)
			case depth < list[at].depth, depth == list[at].depth && f.tag.Named && !list[at].tag.Named:
				list[at] = f
			case depth == list[at].depth && f.tag.Named == list[at].tag.Named:
				list[at].twin = f.Name
			}
		}
	}
	walk(t, 0, false)
	return list
}
