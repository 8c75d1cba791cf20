// A module of its own: what peers need must not enter the engine's.
module github.com/superstep-dev/superstep/bench

go 1.26.0
