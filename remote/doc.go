// Package remote makes nodes of a graph out of what runs elsewhere: graphs and agents
// that a server of LangGraph's protocol serves, such as package server's own.
//
//	c, err := client.New("https://trips.example.com", client.APIKey(key))
//	...
//	remote.AddGraph(b, "trip", remote.Graph[State, Wish, Trip]{
//		Client: c, Assistant: "trip",
//		Input:  func(ctx context.Context, s *State) (Wish, error) { return Wish{City: s.City}, nil },
//		Output: func(ctx context.Context, s *State, t Trip) error { s.Booked = t.Booked; return nil },
//	})
//
// To the graph such a node is one like any other: it asks people, streams, fails, is
// retried and goes on after its process was killed, and what it does there is done once.
package remote
