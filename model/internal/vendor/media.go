package vendor

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

// Media reports whether a part is an image, a sound or a file.
func Media(p chat.Part) bool {
	switch p.(type) {
	case chat.Image, chat.Audio, chat.File:
		return true
	}
	return false
}

// Able says what a model takes, as far as that is known.
type Able struct {
	Model string
	Has   model.Capabilities
	Known bool
}

// AbleOf looks a model up.
func AbleOf(t model.Table, name string) Able {
	c, known := t.Of(name)
	return Able{name, c, known}
}

// Untaken returns why a model doesn't take a part, nil if it may.
func (a Able) Untaken(p chat.Part) error {
	if !a.Known {
		return nil
	}
	ok, what := true, ""
	switch p.(type) {
	case chat.Image:
		ok, what = a.Has.Images, "images"
	case chat.Audio:
		ok, what = a.Has.Audio, "audio"
	case chat.File:
		ok, what = a.Has.Files, "files"
	}
	if ok {
		return nil
	}
	return fmt.Errorf("the model %s takes no %s", a.Model, what)
}

// Told is what a model is told in the place of media that it can't be sent: the text of
// a file that is one, what is said in a sound if that is known, and else what there was
// and why it isn't there. A conversation has to go on with whatever a tool returned.
func Told(p chat.Part, why error) string {
	var s chat.Source
	what, said := "", ""
	switch p := p.(type) {
	case chat.Image:
		s, what = p.Source, "an image"
	case chat.Audio:
		s, what, said = p.Source, "a sound", p.Transcript
	case chat.File:
		s, what = p.Source, "a file"
		if p.Name != "" {
			what = fmt.Sprintf("the file %q", p.Name)
		}
	default:
		return ""
	}
	r, err := Resolve(s)
	if err != nil {
		why = err
	}
	if f, ok := p.(chat.File); ok && err == nil && text(r) {
		return fmt.Sprintf("The text of %s:\n%s", strings.TrimSpace("the file "+f.Name), r.Data)
	}
	var about []string
	if r.MIME != "" {
		about = append(about, r.MIME)
	}
	switch {
	case r.Data != nil:
		about = append(about, fmt.Sprintf("%d bytes", len(r.Data)))
	case r.URL != "":
		about = append(about, r.URL)
	}
	if len(about) > 0 {
		what += " (" + strings.Join(about, ", ") + ")"
	}
	var e *model.Error
	reason := why.Error()
	if errors.As(why, &e) {
		reason = e.Message
	}
	told := fmt.Sprintf("[Not shown: %s: %s]", what, reason)
	if said != "" {
		told += "\nWhat is said in it: " + said
	}
	return told
}

// text reports whether a source is a text.
func text(s chat.Source) bool {
	return s.Data != nil && utf8.Valid(s.Data) && (strings.HasPrefix(s.MIME, "text/") || s.MIME == "application/json" || strings.HasSuffix(s.MIME, "+json") || strings.HasSuffix(s.MIME, "xml"))
}

// Last returns the place of the last message of the user: media that the user sent
// before it, and the provider doesn't take, were refused when they were new. They are
// told then, for else the conversation could never go on.
func Last(messages []chat.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == chat.RoleUser {
			return i
		}
	}
	return -1
}
