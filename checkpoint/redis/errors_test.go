package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// refused opens a store that cannot be opened.
func refused(t *testing.T, url string, o redis.Options, kind error, says ...string) {
	t.Helper()
	s, err := redis.Open(t.Context(), url, o)
	if err == nil {
		s.Close()
		t.Fatal("the store was opened")
	}
	wantError(t, err, kind, says...)
}

func wantError(t *testing.T, err, kind error, says ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	if _, ok := errors.AsType[*redis.Error](err); !ok {
		t.Fatalf("error %v is not a *redis.Error", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Fatalf("error %q does not say %q", err, s)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Fatalf("error %q has the password", err)
	}
}

const secret = "hunter2"

func set(t testing.TB, c *goredis.Client, args ...any) {
	t.Helper()
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestURLsThatAreNotValid(t *testing.T) {
	for url, says := range map[string]string{
		"":                                  "URL is empty",
		"redis://:hunter2@host:bad/0":       "cannot be parsed",
		"redis://:p@ss:hunter2/@host":       "",
		"http://user:hunter2@host":          "scheme",
		"redis://host/hunter2x":             "",
		"redis://u:hunter2@host/0?wat=1":    "wat",
		"redis://u:hunter2@host/hunter2/0":  "",
		"redis://u:hunter2@host:6379/0?db=": "",
	} {
		t.Run(url, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			s, err := redis.Open(ctx, url)
			if err == nil {
				s.Close()
				t.Fatal("the store was opened")
			}
			if url == "redis://host/hunter2x" { // there it is no password
				return
			}
			if says != "" {
				wantError(t, err, redis.ErrURL, says, "redis://user:password@host")
			}
			if strings.Contains(err.Error(), secret) {
				t.Fatalf("error %q has the password", err)
			}
		})
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range [][]redis.Options{{{TTL: -1}}, {{TTL: time.Microsecond}}, {{}, {}}} {
		if _, err := redis.Open(t.Context(), "redis://localhost", o...); err == nil || !strings.Contains(err.Error(), "Options") {
			t.Fatalf("got %v for %v", err, o)
		}
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	refused(t, "redis://:"+secret+"@"+l.Addr().String()+"/3", redis.Options{}, redis.ErrUnreachable, l.Addr().String()+"/3", "start the server")
}

func TestPasswordsAndRights(t *testing.T) {
	server := servertest.OwnRedis(t, "--requirepass", "open sesame")
	at := func(user string) string { return strings.Replace(server.URL(), "redis://", "redis://"+user+"@", 1) }
	refused(t, server.URL(), redis.Options{}, redis.ErrDenied, "password", "into the URL")
	refused(t, at(":"+secret), redis.Options{}, redis.ErrDenied, "password")
	s, err := redis.Open(t.Context(), at(":open%20sesame"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	logtest.Begin(t, s, checkpoint.Log{Thread: "t"}, 1)

	admin := client(t, at(":open%20sesame"))
	set(t, admin, "ACL", "SETUSER", "reader", "on", ">pw", "~superstep:*", "+@all", "-@write")
	r, err := redis.Open(t.Context(), at("reader:pw"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n := logtest.Count(t, r, checkpoint.Log{Thread: "t"}); n != 1 {
		t.Fatalf("%d records", n)
	}
	_, err = r.Write(t.Context(), &checkpoint.Write{Log: checkpoint.Log{Thread: "t"}, Claim: true})
	wantError(t, err, redis.ErrDenied, "may not")
	// No more than the documentation says is needed.
	set(t, admin, "ACL", "SETUSER", "least", "on", ">pw", "~superstep:*", "-@all", "+@scripting", "+@hash", "+@sortedset",
		"+@connection", "+get", "+setnx", "+exists", "+unlink", "+rename", "+persist", "+pexpire", "+pexpireat", "+time")
	l, err := redis.Open(t.Context(), at("least:pw"), redis.Options{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := checkpoint.Log{Thread: "u"}
	head := logtest.Begin(t, l, log, 600)
	var gone []checkpoint.ID
	for r := range l.Records(t.Context(), checkpoint.Query{Log: log, To: 550, Meta: true}) {
		gone = append(gone, r.ID)
	}
	if err := l.Rewrite(t.Context(), &checkpoint.Rewrite{Log: log, Head: head, Remove: gone}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Copy(t.Context(), "u", "v"), l.Delete(t.Context(), "u")); err != nil {
		t.Fatal(err)
	}
	for info, err := range l.Threads(t.Context(), checkpoint.ThreadFilter{}) {
		if err != nil {
			t.Fatal(info, err)
		}
	}
}

func TestAReadOnlyReplica(t *testing.T) {
	server := servertest.OwnRedis(t)
	s, err := redis.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	head := logtest.Begin(t, s, log, 2)
	c := client(t, server.URL())
	set(t, c, "REPLICAOF", "127.0.0.1", "1")
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: log, Claim: true})
	wantError(t, err, redis.ErrReadOnly, "replica", "primary")
	if n := logtest.Count(t, s, log); n != 2 { // reading goes on
		t.Fatal(n)
	}
	set(t, c, "REPLICAOF", "NO", "ONE")
	logtest.Write(t, s, &checkpoint.Write{Log: log, Head: head, Record: logtest.Step(log, checkpoint.NewRunID(), head, 3, logtest.Message)})
}

func TestAServerOutOfMemory(t *testing.T) {
	server := servertest.OwnRedis(t)
	s, err := redis.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	head := logtest.Begin(t, s, log, 2)
	e := checkpoint.Result{Epoch: head, Kind: checkpoint.KindOnce, Data: []byte(`1`)}
	fence := logtest.Write(t, s, &checkpoint.Write{Log: log, Claim: true, Holder: "me", Lease: time.Hour, Results: []checkpoint.Result{e}}).Fence
	before := dump(t, client(t, server.URL()))
	c := client(t, server.URL())
	set(t, c, "CONFIG", "SET", "maxmemory", "1")
	for _, w := range []*checkpoint.Write{
		{Log: log, Head: head, Record: logtest.Step(log, checkpoint.NewRunID(), head, 3, logtest.Message), Drop: &checkpoint.Drop{Epoch: head}},
		{Log: log, Fence: fence, Lease: time.Hour, Holder: "me"},
		{Log: log, Remove: []checkpoint.ResultKey{e.Key()}, Results: []checkpoint.Result{{Epoch: "x", Kind: checkpoint.KindOnce}}},
		{Log: log, Claim: true, Holder: "me"},
	} {
		_, err = s.Write(t.Context(), w)
		wantError(t, err, redis.ErrFull, "raise maxmemory", "nothing was written")
		if after := dump(t, c); after != before {
			t.Fatalf("a write that was refused left\n%s\nbefore it was\n%s", after, before)
		}
	}
	if n := logtest.Count(t, s, log); n != 2 { // reading goes on
		t.Fatal(n)
	}
	other := checkpoint.Log{Thread: "u"}
	_, err = s.Write(t.Context(), &checkpoint.Write{Log: other, Record: logtest.Step(other, checkpoint.NewRunID(), "", 1, logtest.Message)})
	wantError(t, err, redis.ErrFull)
	if err := s.Delete(t.Context(), "t"); err != nil { // and so does making room
		t.Fatal(err)
	}
	set(t, c, "CONFIG", "SET", "maxmemory", "0")
	logtest.Begin(t, s, log, 1)
}

// dump returns all keys and what they hold.
func dump(t testing.TB, c *goredis.Client) string {
	t.Helper()
	ks := keys(t, c, "")
	slices.Sort(ks)
	var b strings.Builder
	for _, k := range ks {
		kind := c.Type(t.Context(), k).Val()
		var v any
		switch kind {
		case "hash":
			v = c.HGetAll(t.Context(), k).Val()
		case "zset":
			v = c.ZRange(t.Context(), k, 0, -1).Val()
		case "set":
			all := c.SMembers(t.Context(), k).Val()
			slices.Sort(all)
			v = all
		case "list":
			v = c.LRange(t.Context(), k, 0, -1).Val()
		default:
			v = c.Get(t.Context(), k).Val()
		}
		fmt.Fprintf(&b, "%q %s %q\n", k, kind, v)
	}
	return b.String()
}

// TestAServerThatLoads uses a fake, since a real one is done too soon.
func TestAServerThatLoads(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					for range strings.Count(string(buf[:n]), "*") {
						fmt.Fprint(c, "-LOADING Redis is loading the dataset in memory\r\n")
					}
				}
			}()
		}
	}()
	refused(t, "redis://"+l.Addr().String(), redis.Options{}, redis.ErrLoading, "try again")
}

func TestAnotherLayoutIsRefused(t *testing.T) {
	p := newPrefix(t)
	openAt(t, p).Close()
	openAt(t, p).Close()
	set(t, client(t, servertest.Redis(t)), "SET", p+"version", "1000")
	refused(t, servertest.Redis(t), redis.Options{Prefix: p}, checkpoint.ErrVersion, "layout version 1000", "up to 3", "newer version")
	set(t, client(t, servertest.Redis(t)), "SET", p+"version", "1")
	refused(t, servertest.Redis(t), redis.Options{Prefix: p}, checkpoint.ErrVersion, "layout version 1", "before the first release", "another Options.Prefix")
}

func TestKeysOfOthers(t *testing.T) {
	c := client(t, servertest.Redis(t))
	p := newPrefix(t)
	set(t, c, "SET", p+"version", "hello")
	refused(t, servertest.Redis(t), redis.Options{Prefix: p}, redis.ErrForeign, p+"version", "Options.Prefix")
	set(t, c, "DEL", p+"version")
	set(t, c, "SADD", p+"version", "hello")
	refused(t, servertest.Redis(t), redis.Options{Prefix: p}, redis.ErrForeign, p, "Options.Prefix")

	log := checkpoint.Log{Thread: "t", Namespace: "n"}
	for _, key := range []string{
		"t:{t}", "t:{t}:s", "t:{t}:k", "t:{t}:m:n", "t:{t}:d:n",
		"i:threads", "i:due", "i:lease", "i:at", "i:names", "i:expiry",
	} {
		t.Run(key, func(t *testing.T) {
			p := newPrefix(t)
			s := openAt(t, p, redis.Options{TTL: time.Hour})
			defer s.Close()
			set(t, c, "SET", p+key, "of somebody else")
			before := keys(t, c, p)
			_, err := s.Write(t.Context(), &checkpoint.Write{
				Log: log, Claim: true, Holder: "me", Lease: time.Hour, Wake: true,
				Record: logtest.Step(log, checkpoint.NewRunID(), "", 1, logtest.Message), Results: []checkpoint.Result{{Epoch: "e", Kind: checkpoint.KindOnce}},
			})
			wantError(t, err, redis.ErrForeign, p, "nothing was written")
			if after := keys(t, c, p); len(after) != len(before) {
				t.Fatalf("there are keys %q now, before there were %q", after, before)
			}
		})
	}
}

func TestEviction(t *testing.T) {
	server := servertest.OwnRedis(t)
	c := client(t, server.URL())
	for _, x := range []struct {
		memory, policy string
		o              redis.Options
		ok             bool
	}{
		{"0", "allkeys-lru", redis.Options{}, true},
		{"100mb", "noeviction", redis.Options{TTL: time.Hour}, true},
		{"100mb", "allkeys-lru", redis.Options{}, false},
		{"100mb", "allkeys-random", redis.Options{AllowEviction: true}, true},
		{"100mb", "volatile-ttl", redis.Options{}, true},
		{"100mb", "volatile-lru", redis.Options{TTL: time.Hour}, false},
	} {
		set(t, c, "CONFIG", "SET", "maxmemory", x.memory)
		set(t, c, "CONFIG", "SET", "maxmemory-policy", x.policy)
		if !x.ok {
			refused(t, server.URL(), x.o, redis.ErrEviction, x.policy, "noeviction", "AllowEviction")
			continue
		}
		s, err := redis.Open(t.Context(), server.URL(), x.o)
		if err != nil {
			t.Fatal(x, err)
		}
		s.Close()
	}
}

func TestClustersAreRefused(t *testing.T) {
	cluster := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	_, err := redis.New(t.Context(), cluster)
	wantError(t, err, redis.ErrCluster, "ClusterClient")
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	_, err = redis.New(t.Context(), ring)
	wantError(t, err, redis.ErrCluster, "Ring")
	refused(t, servertest.OwnRedis(t, "--cluster-enabled", "yes", "--appendonly", "no").URL(), redis.Options{}, redis.ErrCluster, "single server")
}

func TestDamage(t *testing.T) {
	c := client(t, servertest.Redis(t))
	log := checkpoint.Log{Thread: "t", Namespace: "n"}
	get := func(t *testing.T, key, field string) []byte {
		t.Helper()
		b, err := c.HGet(t.Context(), key, field).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// change changes a byte of a field, counted from its end.
	change := func(t *testing.T, key, field string, at int) {
		t.Helper()
		b := get(t, key, field)
		b[len(b)-at] ^= 1
		set(t, c, "HSET", key, field, b)
	}
	// side returns the key of a side row of a kind.
	side := func(t *testing.T, p, kind string) string {
		t.Helper()
		for _, k := range c.ZRange(t.Context(), p+"t:{t}:k", 0, -1).Val() {
			if strings.HasPrefix(k, kind) {
				return k
			}
		}
		t.Fatalf("no side row of kind %q", kind)
		return ""
	}
	long := func(t *testing.T, p string) { // adds a record whose data stand by themselves
		t.Helper()
		s := openAt(t, p)
		head, _, err := s.Head(t.Context(), log)
		if err != nil {
			t.Fatal(err)
		}
		logtest.Write(t, s, &checkpoint.Write{Log: log, Record: logtest.Step(log, head.ID.Run(), head.ID, 4, logtest.Noise(3000)), Head: head.ID})
	}
	result := func(t *testing.T, p string) string {
		t.Helper()
		logtest.Write(t, openAt(t, p), &checkpoint.Write{Log: log, Results: []checkpoint.Result{{Epoch: "e", Kind: checkpoint.KindOnce}}})
		return side(t, p, "r")
	}
	for name, x := range map[string]struct {
		do    func(t *testing.T, p string)
		reads error // what reading all says
		says  string
	}{
		"a changed byte":  {func(t *testing.T, p string) { change(t, p+"t:{t}:m:n", "2", 3) }, checkpoint.ErrCorrupt, "checksum"},
		"no entry at all": {func(t *testing.T, p string) { set(t, c, "HSET", p+"t:{t}:m:n", "2", "") }, checkpoint.ErrCorrupt, "cut off"},
		"half an entry": {func(t *testing.T, p string) {
			b := get(t, p+"t:{t}:m:n", "2")
			set(t, c, "HSET", p+"t:{t}:m:n", "2", b[:len(b)/2])
		}, checkpoint.ErrCorrupt, ""},
		"swapped entries": {func(t *testing.T, p string) {
			a, b := get(t, p+"t:{t}:m:n", "1"), get(t, p+"t:{t}:m:n", "2")
			set(t, c, "HSET", p+"t:{t}:m:n", "1", b, "2", a)
		}, checkpoint.ErrCorrupt, "checksum"},
		"changed data": {func(t *testing.T, p string) { change(t, p+"t:{t}:m:n", "2", 12) }, checkpoint.ErrCorrupt, "its data has checksum"},
		"changed long data": {func(t *testing.T, p string) {
			long(t, p)
			change(t, p+"t:{t}:d:n", "4", 7)
		}, checkpoint.ErrCorrupt, "its data has checksum"},
		"missing data": {func(t *testing.T, p string) {
			long(t, p)
			set(t, c, "HDEL", p+"t:{t}:d:n", "4")
		}, checkpoint.ErrCorrupt, "its data has checksum"},
		"a missing record": {func(t *testing.T, p string) { set(t, c, "HDEL", p+"t:{t}:m:n", "2") }, nil, "2 rows, the newest says that there are 3"},
		"a missing head":   {func(t *testing.T, p string) { set(t, c, "HDEL", p+"t:{t}:m:n", "3") }, checkpoint.ErrCorrupt, "row 3"},
		"a far too large count": {func(t *testing.T, p string) {
			set(t, c, "HSET", p+"t:{t}", "ln", "1000000000000;1")
		}, checkpoint.ErrCorrupt, "row 1000000000000"},
		"places that are none":  {func(t *testing.T, p string) { set(t, c, "HSET", p+"t:{t}", "ln", "x") }, checkpoint.ErrCorrupt, "row 0"},
		"an older head":         {func(t *testing.T, p string) { set(t, c, "HSET", p+"t:{t}", "ln", "2;1") }, nil, "3 rows, the newest says that there are 2"},
		"a key without its row": {func(t *testing.T, p string) { set(t, c, "HDEL", p+"t:{t}:s", result(t, p)) }, nil, "it is missing"},
		"a row without its key": {func(t *testing.T, p string) {
			set(t, c, "ZREM", p+"t:{t}:k", result(t, p))
		}, nil, "not as many side rows as keys"},
		"a piece of no branch": {func(t *testing.T, p string) {
			set(t, c, "HSET", p+"t:{t}:s", "s\x01n12345678", "123456781;x")
			set(t, c, "ZADD", p+"t:{t}:k", 0, "s\x01n12345678")
		}, checkpoint.ErrCorrupt, "checksum"},
		"a damaged result": {func(t *testing.T, p string) { change(t, p+"t:{t}:s", result(t, p), 6) }, nil, "checksum"},
		"a result without its order": {func(t *testing.T, p string) {
			set(t, c, "HSET", p+"t:{t}:s", result(t, p), "12345678;{}")
		}, nil, "cut off"},
		"a changed header": {func(t *testing.T, p string) { change(t, p+"t:{t}", "h", 7) }, nil, "checksum"},
		"another version":  {func(t *testing.T, p string) { set(t, c, "HSET", p+"t:{t}", "v", "7") }, nil, "its version"},
		"another time":     {func(t *testing.T, p string) { set(t, c, "HSET", p+"i:at", "t", ";80;;") }, nil, "its header says"},
		"an index without the thread": {func(t *testing.T, p string) {
			logtest.Write(t, openAt(t, p), &checkpoint.Write{Log: log, Wake: true})
			set(t, c, "DEL", p+"i:due")
		}, nil, "the thread is not in it"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPrefix(t)
			s := openAt(t, p)
			defer s.Close()
			logtest.Begin(t, s, log, 3)
			logtest.Begin(t, s, checkpoint.Log{Thread: "fine"}, 3)
			for d, err := range s.Verify(t.Context(), "") {
				t.Fatalf("an intact store has damage: %v, %v", d, err)
			}
			x.do(t, p)
			var err error
			for _, err = range s.Records(t.Context(), checkpoint.Query{Log: log}) {
				if err != nil {
					break
				}
			}
			if x.reads != nil && !errors.Is(err, x.reads) || x.reads == nil && err != nil {
				t.Fatalf("reading: got %v, want %v", err, x.reads)
			}
			for _, thread := range []checkpoint.ThreadID{"", "t"} {
				var found []string
				for d, err := range s.Verify(t.Context(), thread) {
					if err != nil {
						t.Fatal(err)
					}
					if d.Thread != "t" || d.Place == "" {
						t.Fatalf("damage at %+v", d)
					}
					found = append(found, d.Error())
				}
				if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), x.says) {
					t.Fatalf("found %q, want %q", found, x.says)
				}
			}
			for d, err := range s.Verify(t.Context(), "fine") {
				t.Fatal(d, err)
			}
		})
	}
}

func TestANewerRecordIsRefused(t *testing.T) {
	p := newPrefix(t)
	s := openAt(t, p)
	defer s.Close()
	log := checkpoint.Log{Thread: "t"}
	logtest.Begin(t, s, log, 1)
	c := client(t, servertest.Redis(t))
	b, err := c.HGet(t.Context(), p+"t:{t}:m:", "1").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b[8+strings.Index(string(b[8:]), ";")+2] = 9
	set(t, c, "HSET", p+"t:{t}:m:", "1", b)
	if _, _, err = s.Head(t.Context(), log); !errors.Is(err, checkpoint.ErrVersion) || errors.Is(err, checkpoint.ErrCorrupt) {
		t.Fatal(err)
	}
}
