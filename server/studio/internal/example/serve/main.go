// Command serve serves the example graphs and the studio, for those who work on
// the studio: with "npm run dev" in the folder web, its page calls this server.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"

	"github.com/superstep-dev/superstep/server"
	"github.com/superstep-dev/superstep/server/studio"
	"github.com/superstep-dev/superstep/server/studio/internal/example"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8123", "where to listen")
	flag.Parse()
	opts, err := example.Options()
	if err != nil {
		log.Fatal(err)
	}
	api, err := server.New(context.Background(), opts...)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/studio/", studio.Handler("/studio/"))
	mux.Handle("/", api)
	log.Printf("studio at http://%s/studio/", *addr)
	log.Fatal(http.ListenAndServe(*addr, mux))
}
