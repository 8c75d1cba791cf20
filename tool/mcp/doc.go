// Package mcp connects agents with the Model Context Protocol (MCP), in both
// directions, on the protocol's official Go SDK.
//
// [Connect] reaches a server, which is a process that it starts ([Command]), an
// endpoint of streamable HTTP ([HTTP]) or a [Server] in the same program
// ([Server.Local]). [Client.Tools] returns the server's tools as they are now, for
// agents to use like any other. What a server asks a person or a model during a call
// is answered as [Config] says: with [Ask], by an interrupt of the graph. A
// connection that broke is made again by the next call; a call that was under way
// isn't repeated, since nobody knows how far the server came: it returns a
// [*ConnectionError].
//
// [NewServer] serves tools, and graphs with their threads ([Server.SetGraphs]), over
// standard input and output, and as a [net/http.Handler].
package mcp
