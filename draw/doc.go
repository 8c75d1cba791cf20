// Package draw renders the structure of a workflow, and what a run did in it,
// as text and as pictures.
//
// A [Graph] is plain data: nodes in the order they were declared, edges, and
// optionally the status of a run. Package graph builds one from a compiled
// graph; anything else may too. Every function of this package is
// deterministic, never fails on a name (names are arbitrary strings and are
// escaped wherever they go) and never changes the graph it is given.
//
//   - [Mermaid] writes a Mermaid flowchart.
//   - [DOT] writes Graphviz text, [StyledDOT] the same with colours and options.
//   - [ASCII] writes a summary of a few lines.
//   - [Diagram] draws boxes and lines with text characters.
//   - [SVG] draws a self-contained picture for light and dark pages.
//   - Package draw/png draws the same picture as pixels.
//   - The package draw/render lets Graphviz and mermaid.ink do the drawing.
//
// The pictures share one layered layout, which is exported: [NewLayout]
// computes boxes and edge routes as data that marshals to JSON, and
// [Layout.Paint] paints it on any [Canvas].
//
// # What is drawn
//
// The start and end of a graph are the nodes named [StartID] and [EndID]. They
// need not be listed in [Graph.Nodes]: text formats always show them, pictures
// show them when an edge touches them or a listed node carries a status. A node
// that only an edge names is drawn as a plain node, after the declared ones;
// [Graph.Validate] reports it.
//
// Static edges are solid. Conditional edges, the declared results of a router,
// are dashed and labelled. Dynamic edges, the destinations that a node declared
// for its own commands, are dotted. Join edges are heavy: the edges with the
// same destination and the same label form one join, which waits for all of
// its sources.
package draw
