package cli_test

import (
	"context"
	"errors"
	"strings"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

// judge opens a model that likes what has an exclamation mark, and the model "priced",
// which tells what it used.
func judge(name string) (model.Model, error) {
	if name != "fan" && name != "priced" {
		return nil, errors.New("no such model")
	}
	reply := scripted.Func(func(_ context.Context, req *model.Request) (chat.Message, error) {
		m := chat.Assistant(`{"reason": "It is dull.", "score": 0}`)
		if strings.Contains(req.Messages[1].Text(), "!") {
			m = chat.Assistant(`{"reason": "It is lively.", "score": 1}`)
		}
		if m.Model = name; name == "priced" {
			m.Usage = &chat.Usage{Input: 1000}
		}
		return m, nil
	})
	return scripted.New(reply, reply, reply, reply), nil
}
