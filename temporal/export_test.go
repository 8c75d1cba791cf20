package temporal

// OnServer is onServer for the tests outside of this package.
var OnServer = onServer

// Where returns where a server is, and the namespace that tests use there.
func (s *testServer) Where() (address, namespace string) { return s.address, s.namespace }
