// Command devserver is a server of Temporal for tests: it prints its address and a
// namespace, and ends when its standard input does. It keeps everything in memory, or in the
// file of SQLite that it is given, with a port, to be killed and started again. Its module
// is its own, as the server takes minutes to compile and wants other versions than the rest.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"os"
	"strconv"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	tlog "go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	schema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const host, namespace = "127.0.0.1", "tests"

func main() {
	db := &config.SQL{PluginName: sqlite.PluginName, DatabaseName: "tests", ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"}}
	port := free()
	switch {
	case len(os.Args) == 3:
		var err error
		if port, err = strconv.Atoi(os.Args[2]); err != nil {
			log.Fatal(err)
		}
		db.DatabaseName, db.ConnectAttributes = os.Args[1], map[string]string{"mode": "rwc", "_journal_mode": "wal", "_synchronous": "1"}
		if _, err := os.Stat(db.DatabaseName); errors.Is(err, fs.ErrNotExist) {
			if err := schema.SetupSchema(db); err != nil {
				log.Fatal(err)
			}
		}
	case len(os.Args) > 1:
		log.Fatal("usage: devserver [file port]")
	}
	n, err := schema.NewNamespaceConfig("active", namespace, false, nil)
	if err == nil {
		err = schema.CreateNamespaces(db, n)
	}
	if err != nil {
		log.Fatal(err)
	}
	s, err := temporal.NewServer(
		temporal.WithConfig(configOf(db, port)), temporal.ForServices(temporal.DefaultServices), temporal.WithLogger(tlog.NewNoopLogger()),
		temporal.WithDynamicConfigClient(dynamicconfig.StaticClient{
			// All workflows are in one shard, and a shard looks 20 times a second for what is
			// to be done: without it, the cost of a step would not be seen.
			dynamicconfig.TransferProcessorMaxPollRPS.Key(): 10_000,
			dynamicconfig.TimerProcessorMaxPollRPS.Key():    10_000,
			// Now and then nobody who waits is told that a workflow is over, and looks when this
			// is: by default, after 20 seconds.
			dynamicconfig.HistoryLongPollExpirationInterval.Key(): 2 * time.Second,
			// A run needs no thousands of events to be continued as a new one.
			dynamicconfig.HistoryCountSuggestContinueAsNew.Key():        500,
			dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): true,
		}),
	)
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		log.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // or else it may panic: https://github.com/temporalio/ringpop-go, swim/labels.go
	fmt.Println(net.JoinHostPort(host, strconv.Itoa(port)), namespace)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// configOf is what one process needs that is all services of a server.
func configOf(db *config.SQL, port int) *config.Config {
	c := &config.Config{
		Persistence: config.Persistence{
			DefaultStore: sqlite.PluginName, VisibilityStore: sqlite.PluginName, NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{sqlite.PluginName: {SQL: db}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
			ClusterInformation: map[string]cluster.ClusterInformation{"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: net.JoinHostPort(host, strconv.Itoa(port))}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: net.JoinHostPort(host, strconv.Itoa(port))},
		Archival: config.Archival{
			History: config.HistoryArchival{State: "disabled"}, Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History: config.HistoryArchivalNamespaceDefaults{State: "disabled"}, Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		Services: map[string]config.Service{},
	}
	c.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: host}
	for _, name := range []string{"frontend", "history", "matching", "worker"} {
		rpc := config.RPC{GRPCPort: free(), MembershipPort: free(), BindOnIP: host}
		if name == "frontend" {
			rpc.GRPCPort = port
		}
		c.Services[name] = config.Service{RPC: rpc}
	}
	return c
}

// free returns a port that nobody has.
func free() int {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
