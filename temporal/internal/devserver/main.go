// Command devserver is a server of Temporal for tests: it keeps everything in memory,
// prints its address and a namespace, and ends when its standard input does. Its module is
// its own, as the server takes minutes to compile and wants other versions than the rest.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/temporal"
	"go.temporal.io/server/temporaltest"
)

func main() {
	s := temporaltest.NewServer(temporaltest.WithBaseServerOptions(temporal.WithDynamicConfigClient(dynamicconfig.StaticClient{
		// All workflows are in one shard, and a shard looks 20 times a second for what is
		// to be done: without it, the cost of a step would not be seen.
		dynamicconfig.TransferProcessorMaxPollRPS.Key(): 10_000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():    10_000,
		// Now and then nobody who waits is told that a workflow is over, and looks when this
		// is: by default, after 20 seconds.
		dynamicconfig.HistoryLongPollExpirationInterval.Key(): 2 * time.Second,
		// A run needs no thousands of events to be continued as a new one.
		dynamicconfig.HistoryCountSuggestContinueAsNew.Key(): 500,
	})))
	fmt.Println(s.GetFrontendHostPort(), s.GetDefaultNamespace())
	_, _ = io.Copy(io.Discard, os.Stdin)
}
