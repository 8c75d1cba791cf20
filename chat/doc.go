// Package chat has the messages that people, programs and language models
// exchange.
//
// A [Message] has a role and parts: text, pictures, sounds, files, reasoning,
// calls of tools and their results. [History] is a state field that holds a
// conversation: messages are added, replaced by their ID and removed, and what
// several nodes do at once merges. [TrimTokens] and [TrimTurns] cut a conversation to what a model
// can take. A [Collector] adds the chunks of a streamed message up.
//
// Messages read and write the JSON that LangChain and LangGraph's clients use;
// see [Message.MarshalJSON]. They also read the shape of OpenAI's chat
// completions, and [OpenAI] writes it.
package chat
