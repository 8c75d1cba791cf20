package openapi

import (
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"
)

// operations are what the server does, by their IDs.
func operations() map[string]operation {
	none := answer{status: http.StatusNoContent, about: "It worked; there is no more to say."}
	of := func(name string) answer { return answer{schema: ref(name, "")} }
	many := func(name string) answer { return answer{schema: list("", ref(name, ""))} }
	pages := func(name string) answer { return answer{schema: list("", ref(name, "")), paged: true} }
	count := answer{about: "How many there are.", schema: whole("")}
	one := func(body string) []example { return []example{{"example", body}} }

	limit := parameter{"limit", whole("The default is 10, the greatest 1000."), "5"}
	modes := parameter{"stream_mode", text("Only these of the modes that the run streams: several as parameters of the same name or as a list in JSON."), ""}
	leave := parameter{"cancel_on_disconnect", yesno("The run is cancelled if the client leaves."), ""}
	last := []parameter{{"Last-Event-ID", text("The last event that was read; -1 for all from the beginning. Without it, what happens from now on."), "-1"}}
	why := parameter{"action", oneOf("Whether what the run did stays (the default) or is undone.", "interrupt", "rollback"), "interrupt"}

	started := answer{about: "The run, which has not begun.", schema: ref("Run", ""), places: true, calls: true}
	waited := answer{about: "What came of the run. Blank lines come before, so that proxies don't give up.", schema: ref("Outcome", ""), places: true}
	streamed := answer{about: "The events of the run, to its end: a line with event, one with data in JSON, one with id.", media: mediaSSE, places: true}
	rest := streamed
	rest.about = "The events of the run, to its end. A run that isn't there is an error among them, or 404 with the header Prefer: handling=strict."
	forever := answer{about: "The events of the thread's runs, until the client leaves.", media: mediaSSE}
	joined := answer{about: "What came of the run.", schema: ref("Outcome", ""), places: true}

	run := ref("RunBody", "")
	runs := []example{
		{"input", `{"assistant_id": "trip", "input": {"days": 2}}`},
		{"answer", `{"assistant_id": "trip", "command": {"resume": "Oslo"}}`},
		{"from_checkpoint", `{"assistant_id": "trip", "input": null, "checkpoint_id": "` + ExampleCheckpoint + `"}`},
	}
	alone := one(`{"assistant_id": "trip", "input": {"days": 2}}`)
	streams := []example{
		{"input", `{"assistant_id": "trip", "input": {"days": 2}, "stream_mode": ["updates", "custom"]}`},
		{"answer", `{"assistant_id": "trip", "command": {"resume": "Oslo"}, "stream_mode": "values"}`},
	}
	crons := one(`{"assistant_id": "trip", "schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin", "input": {"days": 2}, "metadata": {"team": "travel"}}`)

	return map[string]operation{
		"ok":      {summary: "Whether the server answers", out: answer{schema: record("", member{"ok!", yesno("")})}},
		"ready":   {fails: []int{http.StatusServiceUnavailable}, summary: "Whether requests should be sent here", about: "503 while the server drains and while its database doesn't answer.", out: answer{schema: record("", member{"ready!", yesno("")})}},
		"metrics": {summary: "What the server counts, for Prometheus", out: answer{media: "text/plain"}},
		"openapi": {summary: "This description", out: answer{schema: free("")}},
		"info": {summary: "What the server is", out: answer{schema: record("",
			member{"version!", text("Of Superstep.")},
			member{"context!", text("The language.")},
			member{"flags!", named("What it can do.", yesno(""))},
			member{"dialogue", text("The graph of the assistant in YAML that it speaks for, if there is one.")},
		)}},

		"createAssistant": {
			fails: []int{http.StatusNotFound, http.StatusConflict}, summary: "Make an assistant", in: required("AssistantBody", "graph_id"),
			inputs: one(`{"graph_id": "trip", "name": "Short trips", "config": {"recursion_limit": 50}, "metadata": {"team": "travel"}}`), out: of("Assistant"),
		},
		"searchAssistants": {
			summary: "Find assistants", in: ref("AssistantSearch", ""),
			inputs: one(`{"graph_id": "trip", "metadata": {"team": "travel"}, "limit": 5}`), out: pages("Assistant"),
		},
		"countAssistants": {
			summary: "Count assistants", in: ref("AssistantSearch", ""), inputs: one(`{"graph_id": "trip"}`), out: count,
		},
		"getAssistant": {summary: "Show an assistant", out: of("Assistant")},
		"patchAssistant": {
			summary: "Change an assistant", about: "Makes a new version, even if nothing is given.", in: ref("AssistantBody", ""),
			inputs: one(`{"name": "Long trips", "metadata": {"team": "leave"}}`), out: of("Assistant"),
		},
		"deleteAssistant": {
			summary: "Remove an assistant with its versions and runs",
			query:   []parameter{{"delete_threads", yesno("And with the threads that it ran on."), "true"}},
			out:     answer{about: "The ID.", schema: list("", text(""))},
		},
		"getGraph": {
			summary: "Draw the graph", query: []parameter{
				{"xray", text("Shows the nodes of subgraphs: true for all, or how many levels."), "true"},
				{"open", text("Shows the nodes of these subgraphs: a list of paths in JSON."), ""},
				{"layout", oneOf("Adds where things are, from top to bottom or from left to right.", "TB", "LR"), ""},
			}, out: of("Drawing"),
		},
		"getSchemas": {summary: "Describe what the graph takes and gives", out: of("GraphSchemas")},
		"getSubgraphs": {
			summary: "List the subgraphs", query: []parameter{{"recurse", yesno("Those inside of subgraphs as well."), "true"}},
			out: answer{about: "By their paths.", schema: named("", free(""))},
		},
		"getSubgraph": {
			summary: "List a subgraph and those inside of it", query: []parameter{{"recurse", yesno("Those inside of subgraphs as well."), "true"}},
			out: answer{about: "By their paths.", schema: named("", free(""))},
		},
		"listVersions": {
			summary: "List the versions of an assistant, newest first",
			in:      record("", append(paged(), member{"metadata", free("What the metadata contain at least.")})...),
			out:     many("Assistant"), inputs: one(`{"limit": 5}`),
		},
		"setLatest": {
			summary: "Make a version the one that is used", in: record("", member{"version!", whole("")}), inputs: one(`{"version": 1}`), out: of("Assistant"),
		},

		"createThread": {
			fails: []int{http.StatusNotFound, http.StatusConflict}, summary: "Make a thread", in: ref("ThreadBody", ""), inputs: []example{
				{"plain", `{"metadata": {"customer": "c-7"}, "ttl": 1440}`},
				{"with_history", `{"graph_id": "trip", "supersteps": [{"updates": [{"values": {"days": 4}, "as_node": "plan"}]}]}`},
			}, out: of("Thread"),
		},
		"searchThreads": {
			summary: "Find threads", in: ref("ThreadSearch", ""), inputs: []example{
				{"waiting", `{"status": "interrupted", "metadata": {"graph_id": "trip"}, "sort_by": "updated_at"}`},
				{"extract", `{"extract": {"days": "values.days"}, "limit": 5}`},
			}, out: pages("Thread"),
		},
		"countThreads": {summary: "Count threads", in: ref("ThreadSearch", ""), inputs: one(`{"status": "interrupted"}`), out: count},
		"pruneThreads": {
			summary: "Remove threads, or their history",
			in: record("",
				member{"thread_ids!", list("", text(""))},
				member{"strategy", oneOf("Remove the threads (the default) or all but their newest checkpoint.", "delete", "keep_latest")},
			),
			inputs: one(`{"thread_ids": ["` + ExampleThread + `"], "strategy": "keep_latest"}`),
			out:    answer{schema: record("", member{"pruned_count!", whole("")})},
		},
		"getThread": {summary: "Show a thread with its state and questions", out: of("Thread")},
		"patchThread": {
			summary: "Change a thread's metadata", about: "With the header Prefer: return=minimal the answer is 204.",
			in: ref("ThreadBody", ""), inputs: one(`{"metadata": {"customer": "c-8"}}`), out: of("Thread"),
		},
		"deleteThread": {summary: "Stop a thread's runs, and remove it with its history", out: none},
		"listFeedback": {
			summary: "List what people think of a thread and its runs, newest first", about: "Superstep's own.",
			query: []parameter{{"limit", whole("The default is 100, the greatest 1000."), ""}, {"run_id", id("On this run alone."), ""}}, out: many("Feedback"),
		},
		"giveFeedback": {
			fails: []int{http.StatusConflict}, summary: "Say what you think of a thread or a run", about: "Superstep's own. It goes with the thread.",
			in: record("With a score, a comment or both.",
				member{"run_id", id("The run that it is about, else it is about the thread.")},
				member{"key", text("What is scored; a comment alone needs none.")},
				member{"score", nullable(fraction(""))},
				member{"comment", text("At most 10,000 bytes.")},
			), inputs: []example{{"score", `{"key": "correctness", "score": 0.5, "comment": "The train is the slow one."}`}, {"note", `{"comment": "Ask Kim."}`}}, out: of("Feedback"),
		},
		"deleteFeedback": {summary: "Remove feedback", about: "Superstep's own.", out: none},
		"copyThread":     {summary: "Copy a thread with its history", out: of("Thread")},
		"postEvent": {
			fails: []int{http.StatusConflict}, summary: "Send an event to a thread whose graph waits for it, or will", about: "Superstep's own: for graph.WaitFor.",
			in: record("",
				member{"name!", text("Of the event.")},
				member{"value", anything("What the graph gets.")},
			), inputs: one(`{"name": "paid", "value": {"amount": 120}}`), out: none,
		},
		"getState":   {summary: "Show a thread's newest checkpoint", out: of("ThreadState")},
		"patchState": {summary: "Change a thread's metadata", in: ref("ThreadBody", ""), inputs: one(`{"metadata": {"customer": "c-8"}}`), out: of("Thread")},
		"getCheckpoint": {
			summary: "Show a checkpoint", out: of("ThreadState"),
		},
		"findCheckpoint": {
			summary: "Show a checkpoint, of a subgraph if it is one", in: record("",
				member{"checkpoint", ref("Checkpoint", "")},
				member{"subgraphs", yesno("Ignored.")},
			), inputs: one(`{"checkpoint": {"checkpoint_id": "` + ExampleCheckpoint + `"}}`), out: of("ThreadState"),
		},
		"updateState": {
			fails: []int{http.StatusConflict}, summary: "Write to a thread's state", about: "Makes a checkpoint: after the newest one, or a branch from another.",
			in: record("",
				member{"values", anything("What is written, as an input is.")},
				member{"as_node", text("The node that is taken to have written it, so that those after it run next.")},
				member{"checkpoint", nullable(ref("Checkpoint", ""))},
				member{"checkpoint_id", nullable(id("The same."))},
			),
			inputs: one(`{"values": {"choice": "Lisbon"}, "as_node": "choose"}`),
			out:    answer{schema: record("", member{"checkpoint!", ref("Checkpoint", "")}, member{"configurable!", ref("Checkpoint", "")})},
		},
		"getHistory": {
			summary: "List a thread's checkpoints, newest first",
			query:   []parameter{limit, {"before", text("Only what is older than this checkpoint."), ""}}, out: many("ThreadState"),
		},
		"searchHistory": {summary: "List a thread's checkpoints, newest first", in: ref("HistoryQuery", ""), inputs: one(`{"limit": 5}`), out: many("ThreadState")},
		"listModelCalls": {
			summary: "List the calls of models that were made on a thread, newest first", about: "Superstep's own. Without what was sent and answered.",
			query: []parameter{limit, {"before", text("Only what was called before the call with this ID."), ""}}, out: many("ModelCall"),
		},
		"getRecording": {
			fails:   []int{http.StatusNotImplemented, http.StatusUnprocessableEntity},
			summary: "Export a thread as a recording", about: "Superstep's own. All checkpoints in JSON Lines, to be replayed, imported into another store or kept as a test.",
			out: answer{about: "A line for each checkpoint; the last says that it is whole.", media: mediaLines},
		},
		"replayThread": {
			fails:   []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusNotImplemented, http.StatusServiceUnavailable},
			summary: "Run a thread's graph, as it is served now, against what was recorded of the thread", about: "Superstep's own. Nothing is stored; what nodes do outside of Once and Do they do again.",
			in: ref("ReplayBody", ""), inputs: []example{{"all", `{}`}, {"without", `{"take_recorded": ["plan"], "ignore_fields": ["choice"], "limit": 1}`}}, out: of("Replay"),
		},
		"importThread": {
			fails:   []int{http.StatusNotFound, http.StatusNotImplemented},
			summary: "Make a thread of a recording", about: "Superstep's own. Its ID is a new one. The server refuses what no thread can have recorded, and a thread that waits for another one which the user doesn't see.",
			query: []parameter{{"graph_id", text("The graph that it is of; the default is the recorded one, and none if that isn't served."), "trip"}},
			takes: mediaLines, in: text("A recording: a line for each checkpoint; the last says that it is whole."), out: of("Thread"),
		},
		"listToolCalls": {
			summary: "List the calls of tools that were made on a thread, newest first", about: "Superstep's own. When they ran; what they were given and returned is in the messages.",
			query: []parameter{limit, {"before", text("Only what was called before the call with this ID."), ""}}, out: many("ToolCall"),
		},
		"askModelAgain": {
			fails:   []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusNotImplemented},
			summary: "Ask the model of a call once more, in other words", about: "Superstep's own. The answer is shown as a call in the place of that one; the thread stays as it is, and nothing is recorded. Servers that open no models (server.AskAgain) answer 501.",
			in: record("", member{"request!", anything("What to ask: the request of a call.")}), inputs: one(`{"request": {"messages": [{"role": "user", "content": "Oslo or Lisbon?"}]}}`), out: of("ModelCall"),
		},
		"getModelCall": {
			summary: "Show a call of a model with what was sent and answered", about: "Superstep's own.", out: of("ModelCall"),
		},

		"command": {
			summary: "Carry out a command of the second protocol", in: ref("EventCommand", ""), inputs: []example{
				{"start", `{"id": 1, "method": "run.start", "params": {"assistant_id": "trip", "input": {"days": 2}, "config": {"configurable": {"checkpoint_id": "` + ExampleCheckpoint + `"}}}}`},
				{"look", `{"id": 2, "method": "state.get", "params": {"keys": ["costs"]}}`},
			}, out: of("EventAnswer"),
		},
		"streamEvents": {
			summary: "Follow a thread in the second protocol", in: ref("EventFilter", ""), inputs: one(`{"channels": ["lifecycle", "values", "input"]}`), out: forever,
		},
		"streamThread": {
			summary: "The same under another name", in: ref("EventFilter", ""), inputs: one(`{"channels": ["lifecycle", "values", "input"]}`), out: forever,
		},
		"openSocket": {
			summary: "Follow and command a thread over a WebSocket", out: answer{status: http.StatusSwitchingProtocols, about: "Commands, answers and events as JSON texts."},
		},
		"joinThread": {
			summary: "Follow all runs of a thread", headers: last, query: []parameter{
				{"stream_mode", oneOf("What its runs stream (the default), where they begin and end, or edits of its state; several as parameters of the same name.", "run_modes", "lifecycle", "state_update"), "run_modes"},
			}, out: forever,
		},

		"createRun": {summary: "Start a run", in: run, inputs: runs, out: started},
		"streamRun": {summary: "Start a run and follow it", in: run, inputs: streams, out: streamed},
		"waitRun":   {summary: "Start a run and wait for its end", in: run, inputs: runs, out: waited},
		"listRuns": {
			summary: "List a thread's runs, newest first", query: []parameter{
				limit, {"offset", whole(""), "0"},
				{"status", oneOf("", "pending", "running", "success", "error", "timeout", "interrupted"), "interrupted"},
				{"select", text("A member to be shown; all by default."), ""},
			}, out: many("Run"),
		},
		"getRun":     {summary: "Show a run", out: of("Run")},
		"deleteRun":  {summary: "Stop a run and remove it", out: none},
		"joinRun":    {summary: "Wait for a run", query: []parameter{leave}, out: joined},
		"joinStream": {summary: "Follow a run", query: []parameter{modes, leave}, headers: last, out: rest},
		"cancelRun":  cancelling(why),

		"createStatelessRun": {fails: []int{http.StatusNotFound}, summary: "Start a run on a thread of its own", in: run, inputs: alone, out: started},
		"streamStatelessRun": {fails: []int{http.StatusNotFound}, summary: "Start a run on a thread of its own and follow it", in: run, inputs: alone, out: streamed},
		"waitStatelessRun":   {fails: []int{http.StatusNotFound}, summary: "Start a run on a thread of its own and wait for its end", in: run, inputs: alone, out: waited},
		"batchRuns": {
			fails: []int{http.StatusNotFound, http.StatusTooManyRequests}, summary: "Start several runs, each on a thread of its own", in: list("", run),
			inputs: one(`[{"assistant_id": "trip", "input": {"days": 2}}, {"assistant_id": "trip", "input": {"days": 3}}]`), out: many("Run"),
		},
		"searchRuns": {
			summary: "Find runs of all threads, newest first", about: "Superstep's own. A run without a thread is found while it lasts.", in: ref("RunSearch", ""), inputs: []example{
				{"failed", `{"status": ["error", "timeout"], "graph_id": "trip", "error": "overloaded", "created_after": "2026-01-01T00:00:00Z"}`},
				{"dear", `{"min_cost": 0.5, "limit": 5}`},
				{"newest", `{"limit": 5}`},
			}, out: answer{schema: list("", ref("RunFound", "")), cursor: true},
		},
		"getFigures": {
			summary: "Count runs of all threads over time, how long they took and what their models used", about: "Superstep's own.", in: ref("RunFigures", ""),
			inputs: one(`{"bucket_seconds": 3600, "created_after": "2026-01-01T00:00:00Z", "graph_id": "trip"}`),
			out: answer{about: "For each time in which runs were created, in order.", schema: list("", record("",
				member{"from!", at("When the time begins.")},
				member{"runs!", whole("")},
				member{"errors!", whole("Those that failed or took too long.")},
				member{"p50!", nullable(fraction("Seconds from the beginning to the end, which half of those that have ended are at or below, to three digits; null if none has."))},
				member{"p95!", nullable(fraction("The same of 95 in 100."))},
				member{"input_tokens!", nullable(whole("What the models used of those runs of which it is known; null if it is of none."))},
				member{"output_tokens!", nullable(whole("The same."))},
				member{"cost!", nullable(fraction("In dollars, of those runs of which it is known; null if it is of none."))},
			))},
		},
		"cancelRuns": {
			fails: []int{http.StatusNotFound}, summary: "Cancel several runs", query: []parameter{why}, in: record("",
				member{"thread_id", text("")},
				member{"run_ids", list("", id(""))},
				member{"status", oneOf("Those of this status, instead of run_ids.", "pending", "running", "all")},
			), inputs: one(`{"thread_id": "` + ExampleThread + `", "status": "all"}`), out: none,
		},
		"joinStatelessStream": {summary: "Follow a run", query: []parameter{modes, leave}, headers: last, out: rest},
		"joinStatelessRun":    {summary: "Wait for a run", query: []parameter{leave}, out: joined},

		"createCron":       {fails: []int{http.StatusNotFound}, summary: "Start runs at times, each on a thread of its own", in: required("CronBody", "schedule", "assistant_id"), inputs: crons, out: of("Cron")},
		"createThreadCron": {summary: "Start runs on a thread at times", in: required("CronBody", "schedule", "assistant_id"), inputs: crons, out: of("Cron")},
		"patchCron":        {summary: "Change a cron", in: ref("CronBody", ""), inputs: one(`{"schedule": "@daily", "enabled": false}`), out: of("Cron")},
		"deleteCron":       {summary: "Remove a cron", out: none},
		"searchCrons":      {summary: "Find crons", in: ref("CronSearch", ""), inputs: one(`{"assistant_id": "trip", "enabled": true}`), out: pages("Cron")},
		"countCrons":       {summary: "Count crons", in: ref("CronSearch", ""), inputs: one(`{"assistant_id": "trip"}`), out: count},

		"putItem": {
			summary: "Store an item", in: record("",
				member{"namespace!", list("Labels without points.", text(""))},
				member{"key!", text("")},
				member{"value!", free("")},
				member{"index", anything("false to leave it out of the search by meaning, or a list of the fields to search.")},
				member{"ttl", nullable(fraction("For how many minutes."))},
			), inputs: one(`{"namespace": ["users", "u-1"], "key": "home", "value": {"city": "Oslo"}}`), out: none,
		},
		"getItem": {
			summary: "Show an item", query: []parameter{
				{"namespace", text("Its labels with points between them, or as a list in JSON."), "users.u-1"},
				{"key", text(""), "home"},
				{"refresh_ttl", yesno("Whether its time begins anew."), ""},
			}, out: answer{about: "The item, or null if there is none.", schema: nullable(ref("Item", ""))},
		},
		"deleteItem": {
			summary: "Remove an item", in: record("",
				member{"namespace!", list("", text(""))},
				member{"key!", text("")},
			), inputs: one(`{"namespace": ["users", "u-1"], "key": "home"}`), out: none,
		},
		"searchItems": {
			summary: "Find items", in: record("", append(paged(),
				member{"namespace_prefix", list("", text(""))},
				member{"filter", free("What values have, with $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin as in {\"age\": {\"$gt\": 5}}, joined by $and, $or, $not.")},
				member{"query", text("What is meant, for a store that can search by meaning.")},
				member{"refresh_ttl", nullable(yesno("Whether their time begins anew."))},
			)...), inputs: one(`{"namespace_prefix": ["users"], "filter": {"city": "Oslo"}, "limit": 5}`),
			out: answer{schema: record("", member{"items!", list("", ref("Item", ""))})},
		},
		"listNamespaces": {
			summary: "List namespaces", in: record("", append(paged(),
				member{"prefix", list("", text(""))},
				member{"suffix", list("", text(""))},
				member{"max_depth", whole("Cuts namespaces to so many labels.")},
			)...), inputs: one(`{"prefix": ["users"], "max_depth": 2}`),
			out: answer{schema: record("", member{"namespaces!", list("", list("", text("")))})},
		},
	}
}

// cancelling is the operation that has two statuses: this is the one of waiting.
func cancelling(why parameter) operation {
	return operation{
		summary: "Cancel a run", about: "Without wait the answer comes at once, as 202.",
		query: []parameter{why, {"wait", yesno("The answer comes when the run has ended."), "true"}}, out: answer{status: http.StatusNoContent, about: "The run has ended."},
	}
}

// required is a schema with members that must be there.
func required(name string, members ...string) *jsonschema.Schema {
	return &jsonschema.Schema{AllOf: []*jsonschema.Schema{ref(name, ""), {Required: members}}}
}
