package server_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/server"
)

// SUPERSTEP_RUNS is how many runs there are, on a tenth as many threads:
//
//	SUPERSTEP_RUNS=1000000 go test ./server -run XXX -bench Runs -timeout 1h
func BenchmarkRunsOfAllThreads(b *testing.B) {
	runs, _ := strconv.Atoi(os.Getenv("SUPERSTEP_RUNS"))
	runs = max(runs, 10_000)
	b.Run("sqlite", func(b *testing.B) {
		dir := b.TempDir()
		benchmarkRuns(b, runs, "sqlite:"+dir+"/a.db", "sqlite", dir+"/a.server.db", "")
	})
	b.Run("postgres", func(b *testing.B) {
		url := ownSchema(b)
		plain, schema, _ := strings.Cut(url, "schema=")
		benchmarkRuns(b, runs, url, "pgx", strings.TrimRight(plain, "?&"), schema+".")
	})
}

// benchmarkRuns fills a database with what a month has left, 5 in 100 of which failed, of
// 5 graphs and 1000 users, and asks for what the studio's page asks for.
func benchmarkRuns(b *testing.B, runs int, data, driver, path, schema string) {
	opts := []server.Option{server.Data(data), server.Graph(booking(b)), server.Authenticate(byHeader), quiet()}
	everybody, err := server.New(b.Context(), opts...)
	if err != nil {
		b.Fatal(err)
	}
	defer everybody.Close(context.Background())
	db, err := sql.Open(driver, path)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	month := 30 * 24 * time.Hour
	fill := strings.NewReplacer(
		"@", schema, "{runs}", fmt.Sprint(runs), "{threads}", fmt.Sprint(runs/10), "{from}", fmt.Sprint(time.Now().Add(-month).UnixMicro()), "{step}", fmt.Sprint(month.Microseconds()/int64(runs)),
		"{id}", "'0198f3c2-5b7a-7d10-8e21-' || (100000000000 + i)", "{thread}", "'0198f3c2-5b7a-7d10-8e22-' || (100000000000 + t)", "{input}", strings.Repeat("what was asked for ", 40),
		"{at}", `"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"`)
	for _, statement := range []string{
		`WITH RECURSIVE n(t) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT t + 1 FROM n WHERE t + 1 < {threads})
		INSERT INTO @superstep_server_threads (id, graph, assistant, owner, status, created, updated, title, says, data)
		SELECT {thread}, 'g' || (t / 10 % 5), 'a' || (t / 10 % 50), 'u' || (t / 10 % 1000), 'idle', {from}, {from}, 'order ' || t, '{input}order ' || t || ' of customer ' || (t / 10),
			'{"thread_id":"' || {thread} || '",{at},"metadata":{"graph_id":"g' || (t / 10 % 5) || '","owner":"u' || (t / 10 % 1000) || '"},"config":{},"status":"idle"}' FROM n`,
		`WITH RECURSIVE n(i) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {runs}),
			r AS (SELECT i, i * 7919 % {threads} AS t, {from} + i * {step} AS at, CASE WHEN i % 20 = 3 THEN 'error' WHEN i % 50 = 7 THEN 'interrupted' ELSE 'success' END AS status, 'model: the provider answered 529, try again in ' || i || ' seconds' AS error FROM n)
		INSERT INTO @superstep_runs (id, thread, assistant, status, created, updated, starts, holder, owner, graph, thread_owner, error, began, ended, tokens_in, tokens_out, cost, data)
		SELECT {id}, {thread}, 'a' || (t / 10 % 50), status, at, at, at, '', 'u' || (t / 10 % 1000), 'g' || (t / 10 % 5), 'u' || (t / 10 % 1000), CASE WHEN status = 'error' THEN error ELSE '' END, at, at + i * 7919 % 60000000, i % 3000, i % 300, (i % 1000) / 1000.0,
			'{"run_id":"' || {id} || '","thread_id":"' || {thread} || '","assistant_id":"a' || (t / 10 % 50) || '",{at},"status":"' || status || '","metadata":{"graph_id":"g' || (t / 10 % 5) || '"},"kwargs":{"input":"{input}"},"multitask_strategy":"enqueue"' ||
			CASE WHEN status = 'error' THEN ',"error":{"error":"Error","message":"' || error || '"}' ELSE '' END || '}' FROM r`,
		"VACUUM ANALYZE @superstep_runs", // as PostgreSQL does by itself
	} {
		if driver == "sqlite" && strings.HasPrefix(statement, "VACUUM") {
			continue
		}
		if _, err := db.ExecContext(b.Context(), fill.Replace(statement)); err != nil {
			b.Fatal(err)
		}
	}
	owners, err := server.New(b.Context(), append(opts, server.Authorize(server.OwnedByUser()))...)
	if err != nil {
		b.Fatal(err)
	}
	defer owners.Close(context.Background())
	day := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	for _, one := range []struct {
		name, path, body string
		of               http.Handler
	}{
		{"view/list", "/runs/search", `{"limit":50}`, everybody},
		{"view/figures", "/runs/figures", `{"bucket_seconds":1800,"created_after":"` + day + `"}`, everybody},
		{"view/list of an owner", "/runs/search", `{"limit":50}`, owners},
		{"view/figures of an owner", "/runs/figures", `{"bucket_seconds":1800,"created_after":"` + day + `"}`, owners},
		{"search/an error", "/runs/search", `{"limit":50,"error":"in 123 seconds"}`, everybody},
		{"search/an error that nothing has", "/runs/search", `{"limit":50,"error":"no such thing","graph_id":"g2"}`, everybody},
		{"search/an error of an owner", "/runs/search", `{"limit":50,"error":"no such thing"}`, owners},
		{"search/what failed in a graph", "/runs/search", `{"limit":50,"graph_id":"g2","status":["error"]}`, everybody},
		{"search/a status that nothing has", "/runs/search", `{"limit":50,"graph_id":"g2","status":["timeout"]}`, everybody},
		{"search/a user", "/runs/search", `{"limit":50,"user_id":"u7"}`, everybody},
		{"search/a user of an assistant", "/runs/search", `{"limit":50,"user_id":"u7","assistant_id":"a8"}`, everybody},
		{"search/the last of a graph", "/runs/search", `{"limit":50,"graph_id":"g2","cursor":"` + fill.Replace("{from}") + `.x"}`, everybody},
		{"search/what cost much", "/runs/search", `{"limit":50,"min_cost":0.99}`, everybody},
		{"search/what cost more than anything did", "/runs/search", `{"limit":50,"min_cost":2,"graph_id":"g2"}`, everybody},
		{"search/tokens of an owner that nothing used", "/runs/search", `{"limit":50,"min_tokens":100000}`, owners},
		{"search/words that one thread says", "/threads/search", `{"limit":50,"query":"order 4321 customer 432","select":["thread_id","title"]}`, everybody},
		{"search/words that nothing says", "/threads/search", `{"limit":50,"query":"no such words","select":["thread_id","title"]}`, everybody},
		{"search/words of an owner that nothing says", "/threads/search", `{"limit":50,"query":"no such words","select":["thread_id","title"]}`, owners},
		{"search/figures of a week", "/runs/figures", `{"bucket_seconds":86400,"created_after":"` + time.Now().AddDate(0, 0, -7).UTC().Format(time.RFC3339) + `"}`, everybody},
		{"search/figures of all", "/runs/figures", `{"bucket_seconds":86400}`, everybody},
	} {
		b.Run(one.name, func(b *testing.B) {
			for b.Loop() {
				if w := quick(b.Context(), one.of, "POST", one.path, one.body, "X-Test-User", "u7"); w.Code != 200 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
