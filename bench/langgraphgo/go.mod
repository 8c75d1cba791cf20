module github.com/superstep-dev/superstep/bench/langgraphgo

go 1.26.0

require github.com/smallnest/langgraphgo v0.8.5

require (
	github.com/dlclark/regexp2 v1.10.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-sqlite3 v1.14.32
	github.com/pkoukk/tiktoken-go v0.1.6 // indirect
	github.com/superstep-dev/superstep/bench v0.0.0
	github.com/tmc/langchaingo v0.1.14 // indirect
)

replace github.com/superstep-dev/superstep/bench => ../
