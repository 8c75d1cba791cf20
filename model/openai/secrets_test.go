package openai_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

func TestNoErrorTellsAPasswordOfTheURL(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(replies(401, "")))
	base := strings.Replace(s.URL, "http://", "http://me:hunter2@", 1)
	m := openai.New("m", openai.BaseURL(base))
	check := func() {
		t.Helper()
		_, err := m.Generate(t.Context(), &model.Request{Messages: []chat.Message{chat.User("hi")}})
		if text := fmt.Sprintf("%v %+v", err, err); err == nil || strings.Contains(text, "hunter2") {
			t.Errorf("the error is %s", text)
		}
	}
	check()
	s.Close() // now nobody is there
	check()
}
