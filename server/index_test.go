package server_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/server"
)

// texts is an index of the field "text", without a model.
func texts() server.Option {
	return server.MemoryConfig(memory.Config{Index: &memory.Index{Embedder: memory.HashEmbedder(64), Name: "hash", Fields: []string{"text"}}})
}

// keys returns the keys of items that a search finds, in its order.
func (c client) keys(search object) (keys []string) {
	c.t.Helper()
	for _, i := range call[object](c, "POST", "/store/items/search", search)["items"].([]any) {
		keys = append(keys, i.(object)["key"].(string))
	}
	return keys
}

func TestAStoreWithAnIndexIsSearchedByMeaning(t *testing.T) {
	for name, data := range map[string]string{"memory": "memory", "SQLite": "sqlite:" + filepath.Join(t.TempDir(), "a.db"), "PostgreSQL": ""} {
		t.Run(name, func(t *testing.T) {
			if data == "" {
				data = ownSchema(t)
			}
			c := start(t, server.Data(data), server.Graph(booking(t)), texts(), quiet())
			put := func(key string, value object, more object) {
				t.Helper()
				body := object{"namespace": []string{"facts"}, "key": key, "value": value}
				for k, v := range more {
					body[k] = v
				}
				call[any](c, "PUT", "/store/items", body)
			}
			put("tea", object{"text": "ada drinks tea in the morning"}, nil)
			put("ship", object{"text": "the ship leaves at noon"}, nil)
			put("hidden", object{"text": "ada drinks tea"}, object{"index": false})
			put("other", object{"text": "x", "title": "ada drinks tea"}, object{"index": []string{"title"}})
			got := c.keys(object{"namespace_prefix": []string{"facts"}, "query": "ada drinks tea", "limit": 2})
			if strings.Join(got, " ") != "other tea" {
				t.Errorf("found %v", got)
			}
			got = c.keys(object{"namespace_prefix": []string{"facts"}, "filter": object{
				"text": object{"$in": []string{"x", "the ship leaves at noon"}}, "$or": []object{{"title": nil}, {"title": object{"$not": object{"$gte": "a"}}}},
			}})
			if strings.Join(got, " ") != "ship" {
				t.Errorf("with a filter found %v", got)
			}
		})
	}
}

func TestAQueryWithoutAnIndexIsRefusedAndSaysWhatToDo(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet())
	status, _, text := c.do("POST", "/store/items/search", object{"query": "tea"})
	if status != 422 || !strings.Contains(text, "server.MemoryConfig") || !strings.Contains(text, "--store-index") {
		t.Errorf("%d %s", status, text)
	}
}

func TestAnIndexThatCannotWorkIsRefusedAtOnce(t *testing.T) {
	own, err := memory.NewInMemory()
	if err != nil {
		t.Fatal(err)
	}
	for says, opts := range map[string][]server.Option{
		"it has no embedder":                    {server.MemoryConfig(memory.Config{Index: &memory.Index{}})},
		"a name is empty":                       {server.MemoryConfig(memory.Config{Index: &memory.Index{Embedder: memory.HashEmbedder(4), Fields: []string{"a..b"}}})},
		"is for a memory that the server opens": {texts(), server.UseMemory(own)},
	} {
		if _, err := server.New(t.Context(), append(opts, server.Graph(booking(t)))...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}
