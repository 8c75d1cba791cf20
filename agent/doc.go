// Package agent has agents: language models that call tools, as graphs.
//
// [New] makes the usual agent of a [ReAct]: a model that calls tools until it has
// an answer. Its parts are nodes that any graph can use: [AddLLM] adds one that
// asks a model, [AddTools] one that calls tools, [AddToolsConditionalEdges] leads
// between them. They work on a [State], which a graph's own state may embed.
//
// Everything that holds for graphs holds for agents: they are checkpointed after
// each step, streamed, interrupted, forked and drawn, and their nodes are not run
// again after a crash when they have finished.
package agent
