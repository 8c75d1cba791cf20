// Package otel reports to OpenTelemetry what graphs, models and tools do: traces,
// metrics, and logs that name their trace.
//
//	tel, err := otel.New(otel.Options{})
//	g, err := b.Compile(tel.Observe())
//	m := tel.Model(openai.New("gpt-5-mini"), otel.ModelInfo{Provider: "openai", Name: "gpt-5-mini"})
//	tools := tel.Tools(weather, calendar)
//	slog.SetDefault(slog.New(otel.LogHandler(slog.Default().Handler())))
//
// # Spans
//
// They nest by context: a run stands in its caller's span, and the context of a
// node has the node's, so that what an instrumented HTTP client or database does
// in it stands there.
//
//	invoke_workflow orders        a run, or that of a subgraph
//	  superstep                   its attribute superstep.step says which
//	    node review               an attempt; each retry has its own
//	      chat gpt-5-mini         a call of a model
//	      execute_tool refund     a call of a tool
//	      invoke_workflow check   a subgraph
//	    handle review             the node's error handler
//
// Names and attributes of models, tools and workflows are those of
// OpenTelemetry's semantic conventions for generative AI; they are still in
// development. What these have no name for begins with "superstep.":
// superstep.thread, .graph, .path, .run, .step, .node, .task, .attempt,
// .checkpoint, and .outcome, which is one of the Outcome constants.
//
// A question to a person is an event "interrupt" of the attempt that asks, a
// breakpoint one of the run, a sleep or a wait for an event an event "wait": none
// is an error. An attempt that is followed by another has an event "retry".
// Failures set the status of the span and the attribute error.type. What was
// cancelled, since its caller or a sibling of the task ended it, has not failed.
//
// A run that package server was asked for by a request with a traceparent stands in
// that trace if the caller waits for the run, and is linked to it if not.
//
// A run that goes on after another, such as one that brings an answer, is linked
// to that one's span: checkpoints carry it in their metadata, as traceparent, so
// that the runs may be months and processes apart.
//
// The content of messages, arguments and results is left out unless
// [Options.Content] asks for it. Values of questions are never reported. The texts
// of errors are, whatever they quote.
//
// # Metrics
//
//	superstep.run.duration                          s, of runs; not of subgraphs
//	superstep.run.active                            runs that have begun and not ended
//	superstep.node.duration                         s, of attempts
//	gen_ai.client.operation.duration                s, of calls of models and tools
//	gen_ai.client.operation.time_to_first_chunk     s, of streams
//	gen_ai.client.token.usage                       tokens, by gen_ai.token.type
//
// Threads are no attribute of metrics: there are too many.
package otel
