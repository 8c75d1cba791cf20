// Package retrieval finds the passages of documents that help to answer a question.
//
// A [Loader] reads a document: [Text], [Markdown], [HTML], and package pdf below this
// one; [LoadFS] reads the files of a folder. A [Splitter] cuts documents into chunks
// along their headings, paragraphs and sentences. An [Index] keeps the chunks in a
// [memory.Store], with their embeddings: a document that is added again replaces what
// it was, and nothing that hasn't changed is embedded again. A [Retriever] finds
// passages by meaning, by words or both, under filters, with several queries, and a
// [Reranker] puts the best first. [Retriever.Tool] makes a tool of it, whose results
// say where each passage stands, so that an agent can cite it.
//
// What documents say is material, never an instruction: an agent that reads documents
// of strangers should have no tool that does harm.
package retrieval
