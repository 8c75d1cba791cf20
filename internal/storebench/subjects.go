package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	neturl "net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	goredis "github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/file"
	"github.com/superstep-dev/superstep/checkpoint/postgres"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/checkpoint/s3"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/internal/servers"
)

// subject is a store that is measured. An area is a name that keeps the data of
// one measurement apart.
type subject struct {
	name    string
	lasting bool // what is stored outlives the store
	open    func(ctx context.Context, area string) (checkpoint.Store, error)
	size    func(ctx context.Context, area string) (int64, error) // bytes stored in an area

	// bare returns a function that inserts the bytes of a step for the i-th of
	// n loops.
	bare func(ctx context.Context, n int) (insert func(ctx context.Context, i int) error, end func(), err error)
}

// body is what a bare loop inserts: as many bytes as a step has.
var body = func() []byte {
	l := newLine("t")
	l.step()
	meta, data, err := checkpoint.MarshalBody(l.step().Record)
	if err != nil {
		panic(err)
	}
	return append(meta, data...)
}()

// subjects returns the stores, and a function that ends their servers.
func subjects(s settings, dir string) (list []*subject, end func(), err error) {
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	list = []*subject{
		memory(),
		files("file", filepath.Join(dir, "every"), file.Options{}),
		files("file, `SyncNever`", filepath.Join(dir, "never"), file.Options{Sync: file.SyncNever}),
		database("sqlite", filepath.Join(dir, "normal"), sqlite.Options{}),
		database("sqlite, `Full`", filepath.Join(dir, "full"), sqlite.Options{Full: true}),
	}
	wanted := func(name string) bool { return strings.Contains(name, s.only) || strings.Contains(s.only, name) }
	if wanted("postgres") {
		url := s.postgres
		if url == "" {
			// Its owner is another user, who must reach it.
			data, err := os.MkdirTemp("", "superstep-storebench")
			if err != nil {
				return nil, end, err
			}
			ends = append(ends, func() { os.RemoveAll(data) })
			p, err := servers.StartPostgres(data, "fsync = on")
			if err != nil {
				return nil, end, missing(err, "postgres")
			}
			ends = append([]func(){p.Stop}, ends...)
			url = p.URL()
		}
		list = append(list, postgresql(url))
	}
	redisAt := func(name string, args ...string) error {
		url := s.redis
		if url == "" {
			data := filepath.Join(dir, strings.NewReplacer(",", "", " ", "-", "`", "").Replace(name))
			if err := os.Mkdir(data, 0o700); err != nil {
				return err
			}
			r, err := servers.StartRedis(data, args...)
			if err != nil {
				return missing(err, "redis")
			}
			ends = append([]func(){func() { _ = r.Stop() }}, ends...)
			url = r.URL()
		}
		list = append(list, redisServer(name, url))
		return nil
	}
	if wanted("redis") {
		if err := redisAt("redis, `everysec`"); err != nil {
			return nil, end, err
		}
		if s.redis == "" {
			if err := redisAt("redis, `always`", "--appendfsync", "always"); err != nil {
				return nil, end, err
			}
		}
	}
	if wanted("s3") {
		url, stop, err := servers.StartS3()
		if err != nil {
			return nil, end, err
		}
		ends = append(ends, stop)
		list = append(list, bucket(url))
	}
	return list, end, nil
}

func memory() *subject {
	return &subject{
		name: "memory",
		open: func(context.Context, string) (checkpoint.Store, error) { return checkpoint.NewMemory(), nil },
		size: func(context.Context, string) (int64, error) {
			var m runtime.MemStats
			for range 2 {
				runtime.GC()
			}
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc), nil
		},
	}
}

// sizeOf adds up the files whose path begins with a prefix.
func sizeOf(prefix string) (n int64, err error) {
	err = filepath.WalkDir(filepath.Dir(prefix), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(path, prefix) {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return n, err
}

func files(name, dir string, o file.Options) *subject {
	return &subject{
		name: name, lasting: true,
		open: func(_ context.Context, area string) (checkpoint.Store, error) {
			return file.Open(filepath.Join(dir, area), o)
		},
		size: func(_ context.Context, area string) (int64, error) { return sizeOf(filepath.Join(dir, area)) },
		bare: func(_ context.Context, n int) (func(context.Context, int) error, func(), error) {
			bare := filepath.Join(dir, fmt.Sprint("bare", n))
			if err := os.MkdirAll(bare, 0o700); err != nil {
				return nil, nil, err
			}
			open := make([]*os.File, n)
			for i := range open {
				f, err := os.OpenFile(filepath.Join(bare, fmt.Sprint(i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					return nil, nil, err
				}
				open[i] = f
			}
			insert := func(_ context.Context, i int) error {
				_, err := open[i].Write(append(body[:len(body):len(body)], '\n'))
				if err == nil && o.Sync == file.SyncEvery {
					err = open[i].Sync()
				}
				return err
			}
			return insert, func() {
				for _, f := range open {
					f.Close()
				}
			}, nil
		},
	}
}

func database(name, dir string, o sqlite.Options) *subject {
	path := func(area string) string { return filepath.Join(dir, area+".db") }
	return &subject{
		name: name, lasting: true,
		open: func(_ context.Context, area string) (checkpoint.Store, error) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
			return sqlite.Open(path(area), o)
		},
		size: func(ctx context.Context, area string) (int64, error) {
			if _, err := os.Stat(path(area)); errors.Is(err, fs.ErrNotExist) {
				return 0, nil
			}
			db, err := sql.Open("sqlite", path(area))
			if err != nil {
				return 0, err
			}
			defer db.Close()
			// What stands in the log belongs to the file.
			if _, err := db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
				return 0, err
			}
			return sizeOf(path(area))
		},
		bare: func(ctx context.Context, n int) (func(context.Context, int) error, func(), error) {
			db, err := sql.Open("sqlite", path(fmt.Sprint("bare", n)))
			if err != nil {
				return nil, nil, err
			}
			db.SetMaxOpenConns(1)
			level := "NORMAL"
			if o.Full {
				level = "FULL"
			}
			for _, q := range []string{`PRAGMA journal_mode = WAL`, `PRAGMA synchronous = ` + level, `CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB NOT NULL)`} {
				if _, err := db.ExecContext(ctx, q); err != nil {
					return nil, nil, err
				}
			}
			st, err := db.PrepareContext(ctx, `INSERT INTO bare (body) VALUES (?)`)
			if err != nil {
				return nil, nil, err
			}
			insert := func(ctx context.Context, _ int) error {
				_, err := st.ExecContext(ctx, body)
				return err
			}
			return insert, func() { st.Close(); db.Close() }, nil
		},
	}
}

// bareConns is how many connections the bare loop on PostgreSQL uses: as many as
// the store.
const bareConns = 8

func postgresql(url string) *subject {
	unique := fmt.Sprintf("storebench_%d_", time.Now().UnixNano())
	exec := func(ctx context.Context, queries ...string) error {
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		for _, q := range queries {
			if _, err := c.Exec(ctx, q); err != nil {
				return err
			}
		}
		return nil
	}
	return &subject{
		name: "postgres", lasting: true,
		open: func(ctx context.Context, area string) (checkpoint.Store, error) {
			return postgres.Open(ctx, url, postgres.Options{Schema: unique + area})
		},
		size: func(ctx context.Context, area string) (n int64, err error) {
			c, err := pgx.Connect(ctx, url)
			if err != nil {
				return 0, err
			}
			defer c.Close(ctx)
			rows, err := c.Query(ctx, `SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables WHERE schemaname = $1`, unique+area)
			if err != nil {
				return 0, err
			}
			names, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return 0, err
			}
			for _, name := range names { // as if autovacuum had been here for long
				if _, err := c.Exec(ctx, `VACUUM FULL `+name); err != nil {
					return 0, err
				}
				var one int64
				if err := c.QueryRow(ctx, `SELECT pg_total_relation_size($1::regclass)`, name).Scan(&one); err != nil {
					return 0, err
				}
				n += one
			}
			return n, nil
		},
		bare: func(ctx context.Context, n int) (func(context.Context, int) error, func(), error) {
			table := pgx.Identifier{fmt.Sprint(unique, n)}.Sanitize()
			if err := exec(ctx, `CREATE TABLE `+table+` (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)`); err != nil {
				return nil, nil, err
			}
			c, err := pgxpool.ParseConfig(url)
			if err != nil {
				return nil, nil, err
			}
			c.MaxConns = bareConns
			pool, err := pgxpool.NewWithConfig(ctx, c)
			if err != nil {
				return nil, nil, err
			}
			insert := func(ctx context.Context, _ int) error {
				_, err := pool.Exec(ctx, `INSERT INTO `+table+` (body) VALUES ($1)`, body)
				return err
			}
			return insert, func() {
				pool.Close()
				_ = exec(context.WithoutCancel(ctx), `DROP TABLE `+table)
			}, nil
		},
	}
}

// bucket measures requests to a server that keeps objects in the memory of this process:
// what a store costs beside a network and disks.
func bucket(url string) *subject {
	base, query, _ := strings.Cut(url, "?")
	client := func() (*minio.Client, string, error) {
		u, err := neturl.Parse(url)
		if err != nil {
			return nil, "", err
		}
		secret, _ := u.User.Password()
		c, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4(u.User.Username(), secret, ""), Region: u.Query().Get("region")})
		return c, strings.Trim(u.Path, "/"), err
	}
	return &subject{
		name: "s3, a server in memory", lasting: true,
		open: func(ctx context.Context, area string) (checkpoint.Store, error) {
			return s3.Open(ctx, base+"/"+area+"?"+query)
		},
		size: func(ctx context.Context, area string) (n int64, err error) {
			c, name, err := client()
			if err != nil {
				return 0, err
			}
			for o := range c.ListObjects(ctx, name, minio.ListObjectsOptions{Prefix: area + "/", Recursive: true}) {
				if o.Err != nil {
					return 0, o.Err
				}
				n += o.Size
			}
			return n, nil
		},
		bare: func(ctx context.Context, n int) (func(context.Context, int) error, func(), error) {
			c, name, err := client()
			var count atomic.Int64
			insert := func(ctx context.Context, i int) error {
				_, err := c.PutObject(ctx, name, fmt.Sprint("bare-", n, "/", i, "/", count.Add(1)), bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{})
				return err
			}
			return insert, func() {}, err
		},
	}
}

func redisServer(name, url string) *subject {
	unique := fmt.Sprintf("storebench-%d-", time.Now().UnixNano())
	client := func() (*goredis.Client, error) {
		o, err := goredis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		return goredis.NewClient(o), nil
	}
	return &subject{
		name: name, lasting: true,
		open: func(ctx context.Context, area string) (checkpoint.Store, error) {
			return redis.Open(ctx, url, redis.Options{Prefix: unique + area + ":"})
		},
		size: func(ctx context.Context, area string) (n int64, err error) {
			c, err := client()
			if err != nil {
				return 0, err
			}
			defer c.Close()
			for it := c.Scan(ctx, 0, unique+area+":*", 1000).Iterator(); ; {
				if !it.Next(ctx) {
					return n, it.Err()
				}
				one, err := c.MemoryUsage(ctx, it.Val(), 0).Result()
				if err != nil {
					return 0, err
				}
				n += one
			}
		},
		bare: func(ctx context.Context, n int) (func(context.Context, int) error, func(), error) {
			c, err := client()
			if err != nil {
				return nil, nil, err
			}
			prefix := fmt.Sprint(unique, "bare-", n, "-")
			insert := func(ctx context.Context, i int) error {
				return c.RPush(ctx, fmt.Sprint(prefix, i), body).Err()
			}
			return insert, func() {
				for i := range n {
					_ = c.Unlink(context.WithoutCancel(ctx), fmt.Sprint(prefix, i)).Err()
				}
				c.Close()
			}, nil
		},
	}
}
