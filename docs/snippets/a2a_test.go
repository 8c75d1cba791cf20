package snippets_test

import (
	"context"

	"github.com/superstep-dev/superstep/a2a"
	memorysqlite "github.com/superstep-dev/superstep/memory/sqlite"
	"github.com/superstep-dev/superstep/server"
)

var _ = notifying

func notifying(ctx context.Context, graphs server.Option) error {
	//snippet:push
	store, err := memorysqlite.Open("push.db")
	if err != nil {
		return err
	}
	defer store.Close()
	push := a2a.NewPush(store, a2a.PushOptions{})
	s, err := server.New(ctx, graphs, server.LocalWebhooks(push.Webhooks()))
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	h := server.HTTPServer(a2a.Handler(s, a2a.Options{Push: push}))
	h.Addr = "127.0.0.1:8123"
	return h.ListenAndServe()
	//snippet:end
}
