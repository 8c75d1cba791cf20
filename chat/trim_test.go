package chat_test

import (
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/chat"
)

func TestTrimming(t *testing.T) {
	call := chat.ToolCall{ID: "c", Name: "add", Args: "{}"}
	all := []chat.Message{
		chat.System("S"),
		chat.User("u1"), chat.Assistant("a1"),
		chat.User("u2"), chat.Assistant("t2", call), chat.ResultText(call, "r2"), chat.Assistant("a2"),
		chat.User("u3"), chat.Assistant("t3", call), chat.ResultText(call, "r3"),
	}
	one := func(chat.Message) int { return 1 }
	tokens := func(max int) []chat.Message { return chat.TrimTokens(all, max, one) }
	round := func(n string, results int) []chat.Message {
		out := []chat.Message{chat.Assistant("t"+n, call)}
		for range results {
			out = append(out, chat.ResultText(call, "r"+n))
		}
		return out
	}
	turn := slices.Concat([]chat.Message{chat.System("S"), chat.User("u0"), chat.User("u")}, round("1", 1), round("2", 2), round("3", 1))
	long := func(max int) []chat.Message { return chat.TrimTokens(turn, max, one) }
	turns := func(n int) []chat.Message { return chat.TrimTurns(all, n) }
	for name, c := range map[string]struct {
		got  []chat.Message
		want string
	}{
		"everything fits":                   {tokens(10), "S u1 a1 u2 t2 r2 a2 u3 t3 r3"},
		"the newest turns that fit":         {tokens(9), "S u2 t2 r2 a2 u3 t3 r3"},
		"no half turns":                     {tokens(7), "S u3 t3 r3"},
		"exactly the last turn":             {tokens(4), "S u3 t3 r3"},
		"a result never stands alone":       {tokens(2), "S u3 t3 r3"},
		"the last one stays":                {tokens(0), "S u3 t3 r3"},
		"of a long turn the newest rounds":  {long(7), "S u t2 r2 r2 t3 r3"},
		"and not a half of one":             {long(6), "S u t3 r3"},
		"and the last in any case":          {long(1), "S u t3 r3"},
		"nobody has asked":                  {chat.TrimTokens(all[4:7], 2, one), "a2"},
		"nobody has asked, and all fits":    {chat.TrimTokens(all[4:7], 3, one), "t2 r2 a2"},
		"one turn":                          {turns(1), "S u3 t3 r3"},
		"two turns":                         {turns(2), "S u2 t2 r2 a2 u3 t3 r3"},
		"more turns than there are":         {turns(9), "S u1 a1 u2 t2 r2 a2 u3 t3 r3"},
		"no turns":                          {turns(0), "S"},
		"nothing":                           {chat.TrimTokens(nil, 5, nil), ""},
		"estimated":                         {chat.TrimTokens(all, 1000, nil), "S u1 a1 u2 t2 r2 a2 u3 t3 r3"},
		"estimated: a message is 5, so two": {chat.TrimTokens([]chat.Message{chat.User("aaaa"), chat.User("bbbb"), chat.User("cccc")}, 10, nil), "bbbb cccc"},
	} {
		if got := plain(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
