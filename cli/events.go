package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) eventsCommand() *cobra.Command {
	send := &cobra.Command{
		Use: "send THREAD NAME [JSON]", Short: "Send an event to a thread",
		Long: `Send an event to a thread. It is stored, whatever the thread is doing, and reaches the
first node that waits for it, now or later. A thread that rests is woken by a
"runner", or goes on with "continue".

The value is JSON, @FILE, or - for the standard input; without one it is null.`,
		Example: fmt.Sprintf(`  %s events send order-7 paid '{"amount": 120}'`, a.name),
		Args:    args(2, 3, "THREAD or NAME"), ValidArgsFunction: a.completeThread,
		RunE: func(cmd *cobra.Command, args []string) error {
			value := json.RawMessage("null")
			if len(args) > 2 {
				v, err := jsonValue(cmd, "JSON", args[2])
				if err != nil {
					return err
				}
				value = v
			}
			ctx := cmd.Context()
			l := &local{a: a}
			if err := l.open(ctx, false); err != nil {
				return err
			}
			t, thread, err := a.choose(ctx, l, nil, args[0])
			if err != nil {
				return err
			}
			if err := t.(*localGraph).on(thread, "").SendEvent(ctx, args[1], value); err != nil {
				return err
			}
			return a.say(map[string]any{"thread": thread, "event": args[1], "value": value}, "Sent %s to thread %s.", args[1], thread)
		},
	}
	g := Group("events", "Send events to threads", a.threadToo(send))
	g.GroupID = "run"
	return g
}
