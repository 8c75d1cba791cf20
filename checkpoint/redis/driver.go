package redis

import (
	"cmp"
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/checkpoint/internal/zip"
)

// The layout. A thread's keys begin with
//
//	<prefix>t:{<ID, with %, { and } as %25, %7b and %7d>}
//
// which is also the key of a hash: v and h (the header's version and the header), n (side
// rows counted), w (what the last commit without a row was answered, see lua/commit.lua),
// x (when the keys end, in milliseconds) and, for each log that has rows, l<namespace>: the
// places of its newest row and of its oldest. Then follow
//
//	:s             hash: key of a side row to token, order and value
//	:k             sorted set of these keys
//	:m:<namespace> hash: place to token, answer and row, with its data if they are small
//	:d:<namespace> hash: place to the data of a row, if they are not
//
// and, of a commit that is under way, :~m: and :~d:, which will be m and d, see
// lua/stage.lua; they end by themselves. The braces make a cluster keep the keys of a
// thread together, should this package learn to use one.
//
// Beside the threads stand <prefix>version and the indexes: sorted sets whose members
// begin with a time, see timeKey, and end with a thread's ID.
//
//	i:threads   by the minute of the head
//	i:l:<label> likewise, those that have a label
//	i:due       by when they are due
//	i:lease     by when their lease ends
//	i:at        hash: thread to its times in these and its labels, see lua/common.lua
//	i:names     all threads, by ID
//	i:expiry    all threads with an end, by its millisecond
//
// Versions 1 and 2 were never released, and are not read.
const layout = 3

//go:embed lua/*.lua
var luaFiles embed.FS

// The scripts run under their hash; the client sends one whole when the server does not
// know it, such as after a restart.
var (
	commitScript  = script("commit")
	stageScript   = script("stage")
	loadScript    = script("load")
	rowsScript    = script("rows")
	sideScript    = script("side")
	logsScript    = script("logs")
	listScript    = script("list")
	waitingScript = script("waiting")
	deleteScript  = script("delete")
	checkScript   = script("check")
)

func script(name string) *goredis.Script {
	var b strings.Builder
	for _, n := range []string{"common", name} {
		f, err := luaFiles.ReadFile("lua/" + n + ".lua")
		if err != nil {
			panic(err)
		}
		b.Write(f)
	}
	return goredis.NewScript(b.String())
}

// threadKey returns the key of a thread's hash.
func (d *driver) threadKey(id checkpoint.ThreadID) string {
	return d.prefix + "t:{" + escape.Replace(string(id)) + "}"
}

var escape = strings.NewReplacer("%", "%25", "{", "%7b", "}", "%7d")

// keys returns what each script has as its keys.
func (d *driver) keys(id checkpoint.ThreadID) []string { return []string{d.threadKey(id), d.prefix} }

// timeKey returns the text form of a number, which sorts as numbers do.
func timeKey(n int64) string { return fmt.Sprintf("%016x", uint64(n)+1<<63) }

// indexed returns where a thread stands in the indexes.
func indexed(h *engine.Header) string {
	at := [4]string{}
	if h.Listed {
		at[0], at[3] = timeKey(h.Minute), strings.Join(h.Labels, "")
	}
	for i, t := range []time.Time{h.Due(), h.Lease.Until} {
		if !t.IsZero() {
			at[i+1] = timeKey(engine.Microseconds(t))
		}
	}
	return strings.Join(at[:], ";")
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// tokenLen is the length of what tells one commit from another.
const tokenLen = 8

func newToken() string {
	n := rand.Uint64()
	b := make([]byte, tokenLen)
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
	return string(b)
}

// places are those of a log's newest row and of its oldest; zero: it has none. They are
// what is known of a log that was loaded.
type places struct{ newest, oldest int64 }

func parsePlaces(s string) (p places) {
	_, _ = fmt.Sscanf(s, "%d;%d", &p.newest, &p.oldest) // else no row is there
	return p
}

// change is what a commit does to one log.
type change struct {
	ns      string
	was     int64 // its newest place
	now     int64
	oldest  string // at least; "": as it was
	rows    []*engine.Row
	removed []engine.Places

	stage      string // where it is prepared, if it is
	rowsStaged string // how many rows, and data
	dataStaged string
}

// changes returns what a commit does to logs.
func changes(c *engine.Commit) (out []*change) {
	known := map[string]*change{}
	at, _ := c.Ref.(places)
	of := func(ns string, was int64) *change {
		if known[ns] == nil {
			known[ns] = &change{ns: ns, was: was, now: was}
			out = append(out, known[ns])
		}
		return known[ns]
	}
	for i := range c.Append {
		r := &c.Append[i]
		was := r.Place - 1
		if c.Version == 0 { // a copy has what its model has
			was = 0
		}
		l := of(r.Namespace, was)
		if l.now == 0 {
			l.oldest = number(r.Place)
		}
		l.rows, l.now = append(l.rows, r), r.Place
	}
	for i := range c.Replace {
		l := of(c.Replace[i].Namespace, c.Newest)
		l.rows = append(l.rows, &c.Replace[i])
	}
	oldest := at.oldest
	for _, p := range c.Remove {
		l := of(p.Namespace, c.Newest)
		l.removed = append(l.removed, p)
		if p.From <= oldest && oldest <= p.To {
			oldest = p.To + 1
		}
		if l.oldest = number(oldest); oldest > l.now {
			l.now = 0
		}
	}
	return out
}

// A script changes so many rows of a log at most: the server does nothing else meanwhile.
const (
	pieceRows  = 500
	pieceBytes = 4 << 20
)

// long reports whether a change is to be made in pieces.
func (l *change) long() bool {
	n, size := int64(len(l.rows)), 0
	for _, r := range l.rows {
		size += len(r.Meta) + len(r.Data)
	}
	for _, p := range l.removed {
		n += p.To - p.From + 1
	}
	return l.now > 0 && (n > pieceRows || n > 1 && size > pieceBytes)
}

// stageTime is how long a log that is prepared stays, if its preparation ends.
const stageTime = 10 * time.Minute

// prepare makes the log that a long change leads to, beside the one that is there, piece by
// piece: the commit puts it in its place.
func (d *driver) prepare(ctx context.Context, thread checkpoint.ThreadID, l *change, at places, stage string) error {
	l.stage = stage
	var keep []any // places
	for p, i := at.oldest, 0; l.was > 0 && p <= l.was; p++ {
		for i < len(l.removed) && l.removed[i].To < p {
			i++
		}
		if i == len(l.removed) || p < l.removed[i].From {
			keep = append(keep, number(p))
		}
	}
	for rows := l.rows; len(keep)+len(rows) > 0; {
		args := []any{l.ns, stage, stageTime.Milliseconds(), pieceBytes}
		some := keep[:min(len(keep), pieceRows)]
		args = append(append(args, len(some)), some...)
		for size := 0; len(keep) == 0 && len(rows) > 0 && size < pieceBytes && len(args) < 3*pieceRows; rows = rows[1:] {
			args = append(args, rowArgs(rows[0])...)
			size += len(rows[0].Meta) + len(rows[0].Data)
		}
		out, err := d.eval(ctx, "write to", stageScript, thread, args...)
		if err != nil {
			return err
		}
		done, err := strconv.Atoi(out[0])
		if err != nil || done > len(some) || done == 0 && len(some) > 0 {
			return d.unexpected("write to", out)
		}
		keep = keep[done:]
		l.rowsStaged, l.dataStaged = out[1], out[2]
	}
	l.rows, l.removed = nil, nil
	return nil
}

// smallData is up to how many bytes the data of a row stand beside it, and not in a field of
// their own, which takes some 50 more.
const smallData = 1 << 10

// rowArgs returns a row's place, the row with its length in front, and its data, unless they
// stand after the row.
func rowArgs(r *engine.Row) []any {
	row, data := engine.AppendRow(nil, r), zip.Pack(r.Data)
	row = append(binary.AppendUvarint(nil, uint64(len(row))), row...)
	if len(data) <= smallData {
		row, data = append(row, data...), nil
	}
	return []any{number(r.Place), row, data}
}

// encode makes the arguments that lua/commit.lua expects.
func (d *driver) encode(c *engine.Commit, logs []*change, token string) []any {
	args := make([]any, 0, 32+2*len(c.Absent)+3*len(c.Put)+3*len(c.Append)+len(c.Delete))
	version, header, at := "", []byte(nil), ""
	if h := c.Header; h != nil {
		version, header, at = number(h.Version), engine.AppendHeader(nil, c.Thread, h), indexed(h)
	}
	// What makes room is not refused for memory.
	need := len(c.Append)+len(c.Put) > 0 || c.Header != nil && len(c.Replace)+len(c.Remove)+len(c.Delete)+len(c.Clear) == 0
	args = append(args, string(c.Thread), token, number(c.Version), version, header, at, d.ttlArg(), flag(need), len(c.Absent))
	ranges := func(prefixes [][]byte) {
		for _, p := range prefixes {
			args = append(args, p, engine.Below(p))
		}
	}
	ranges(c.Absent)
	args = append(args, len(c.Delete))
	for _, k := range c.Delete {
		args = append(args, k)
	}
	args = append(args, len(c.Put))
	for i := range c.Put {
		args = append(args, c.Put[i].Key, c.Put[i].Value, flag(c.Put[i].Replace))
	}
	args = append(args, len(c.Clear))
	ranges(c.Clear)
	for _, l := range logs {
		args = append(args, l.ns, number(l.was), number(l.now), l.oldest, l.stage, l.rowsStaged, l.dataStaged, len(l.rows))
		for _, r := range l.rows {
			args = append(args, rowArgs(r)...)
		}
		removed := l.removed
		if l.now == 0 { // all go with their keys
			removed = nil
		}
		args = append(args, len(removed))
		for _, p := range removed {
			args = append(args, number(p.From), number(p.To))
		}
	}
	return args
}

// ttlArg is the TTL in milliseconds, rounded up.
func (d *driver) ttlArg() string {
	return number(int64((d.ttl + time.Millisecond - 1) / time.Millisecond))
}

// answer is what a commit was answered.
type answer struct {
	out []string
	err error
}

// Commit implements [engine.Driver]: a script for each, all sent at once.
func (d *driver) Commit(ctx context.Context, batch []*engine.Commit) error {
	var send []*engine.Commit
	var args [][]any
	var threads []checkpoint.ThreadID
	for _, c := range batch {
		token, logs := newToken(), changes(c)
		c.Err, c.Ignored = nil, 0
		at, _ := c.Ref.(places)
		for i, l := range logs {
			if c.Err == nil && l.long() && (l.was == 0 || l.was == c.Newest) {
				stage := token + strconv.Itoa(i)
				defer d.unstage(ctx, c, stage)
				c.Err = d.prepare(ctx, c.Thread, l, at, stage)
			}
		}
		if c.Err == nil {
			send, args, threads = append(send, c), append(args, d.encode(c, logs, token)), append(threads, c.Thread)
		}
	}
	if len(send) == 0 {
		return nil
	}
	sent := false // before, and not answered
	v, err := d.call(ctx, "write to", true, func(ctx context.Context) (any, error) {
		answers, err := d.send(ctx, threads, args)
		sent = sent || err != nil && d.maySent(err)
		return answers, err
	})
	if err != nil {
		return err
	}
	for i, a := range v.([]answer) {
		c := send[i]
		switch {
		case a.err != nil:
			c.Err = d.failed("write to", a.err, sent)
		case len(a.out) == 1 && a.out[0] == "stale":
			c.Err = engine.ErrStale
		case len(a.out) == 2:
			if c.Ignored, err = strconv.Atoi(a.out[1]); err == nil {
				continue
			}
			fallthrough
		default:
			c.Err = d.unexpected("write to", a.out)
		}
	}
	return nil
}

// unstage removes what was prepared for a commit that came to nothing. If it fails, that
// ends by itself.
func (d *driver) unstage(ctx context.Context, c *engine.Commit, stage string) {
	if c.Err != nil && ctx.Err() == nil {
		t := d.threadKey(c.Thread)
		_, _ = d.call(ctx, "write to", false, func(ctx context.Context) (any, error) {
			return d.client.Unlink(ctx, t+":~m:"+stage, t+":~d:"+stage).Result()
		})
	}
}

// send sends commits. Its error is one that another try may be without.
func (d *driver) send(ctx context.Context, threads []checkpoint.ThreadID, args [][]any) ([]answer, error) {
	answers := make([]answer, len(args))
	for again := false; ; again = true {
		pipe := d.client.Pipeline()
		cmds := make([]*goredis.Cmd, len(args))
		for i := range args {
			if again && goredis.HasErrorPrefix(answers[i].err, "NOSCRIPT") || !again {
				cmds[i] = pipe.EvalSha(ctx, commitScript.Hash(), d.keys(threads[i]), args[i]...)
			}
		}
		_, _ = pipe.Exec(ctx) // each says its own
		unknown := false
		for i, cmd := range cmds {
			if cmd == nil {
				continue
			}
			out, err := cmd.StringSlice()
			if err != nil && (!answered(err) || passing(err)) {
				return nil, err
			}
			answers[i] = answer{out, err}
			unknown = unknown || goredis.HasErrorPrefix(err, "NOSCRIPT")
		}
		if !unknown || again {
			return answers, nil
		}
		if err := commitScript.Load(ctx, d.client).Err(); err != nil {
			return nil, err
		}
	}
}

func (d *driver) unexpected(op string, out []string) error {
	return fmt.Errorf("redis: %s %s: unexpected answer %.100q", op, d.server, out)
}

// Delete implements [engine.Driver].
func (d *driver) Delete(ctx context.Context, thread checkpoint.ThreadID) error {
	_, err := d.script(ctx, "delete from", deleteScript, thread, true, []any{string(thread)})
	return err
}

// row reads what the server keeps of a row: the token and the answer of lua/commit.lua, and
// the row.
func row(thread checkpoint.ThreadID, ns, place, stored, data string) (engine.Row, error) {
	n, err := strconv.ParseInt(place, 10, 64)
	_, body, ok := strings.Cut(stored[min(tokenLen, len(stored)):], ";")
	if err != nil || !ok {
		return engine.Row{}, damage(thread, fmt.Sprintf("log %q, row %s", ns, place), errors.New("it is missing, or cut off"))
	}
	size, k := binary.Uvarint([]byte(body))
	if k <= 0 || size > uint64(len(body)-k) {
		return engine.Row{}, damage(thread, fmt.Sprintf("log %q, row %s", ns, place), errors.New("it is cut off"))
	}
	b := []byte(body[k:])
	r, err := engine.ParseRow(thread, ns, n, b[:size:size])
	if b = b[size:]; len(b) == 0 {
		b = []byte(data)
	}
	r.Data = zip.Unpack(b)
	return r, err
}

func damage(thread checkpoint.ThreadID, place string, err error) error {
	return &checkpoint.CorruptError{Thread: thread, Place: place, Offset: -1, Err: err}
}

// clock reads what TIME answers.
func clock(out []string) (time.Time, error) {
	s, err := strconv.ParseInt(out[0], 10, 64)
	us, err2 := strconv.ParseInt(out[1], 10, 64)
	return time.Unix(s, us*1000).UTC(), errors.Join(err, err2)
}

// Load implements [engine.Driver].
func (d *driver) Load(ctx context.Context, log checkpoint.Log) (l engine.Loaded, err error) {
	out, err := d.eval(ctx, "read from", loadScript, log.Thread, log.Namespace)
	if err != nil {
		return l, err
	}
	if len(out) < 4 {
		return l, d.unexpected("read from", out)
	}
	if l.Now, err = clock(out); err != nil || out[2] == "" && out[3] == "" {
		return l, err
	}
	if l.Header, err = engine.ParseHeader(log.Thread, []byte(out[2])); err != nil || len(out) < 6 {
		return l, err
	}
	at := parsePlaces(out[3])
	r, err := row(log.Thread, log.Namespace, number(at.newest), out[4], out[5])
	l.Newest, l.Ref = &r, at
	return l, err
}

// Rows implements [engine.Driver].
func (d *driver) Rows(ctx context.Context, q engine.RowQuery) (page []engine.Row, last bool, err error) {
	for !last && len(page) == 0 { // a script looks at so many places at most
		out, err := d.eval(ctx, "read from", rowsScript, q.Log.Thread, q.Log.Namespace, q.From, q.To, flag(q.Desc), flag(q.Meta), q.Rows, q.Bytes)
		if err != nil {
			return page, false, err
		}
		if len(out)%3 != 1 {
			if len(out) == 2 {
				return nil, false, damage(q.Log.Thread, fmt.Sprintf("log %q, row %s", q.Log.Namespace, out[1]), errors.New("it is the newest, and missing"))
			}
			return nil, false, d.unexpected("read from", out)
		}
		for i := 1; i < len(out); i += 3 {
			r, err := row(q.Log.Thread, q.Log.Namespace, out[i], out[i+1], out[i+2])
			if err != nil {
				return page, false, err
			}
			page = append(page, r)
		}
		if last = out[0] == ""; !last {
			n, err := strconv.ParseInt(out[0], 10, 64)
			if err != nil || n < q.From || n > q.To {
				return page, false, d.unexpected("read from", out[:1])
			}
			if q.Desc {
				q.To = n
			} else {
				q.From = n
			}
		}
	}
	return page, last, nil
}

// pageSide is how many side rows one script returns, and pageThreads how many threads it
// looks at.
const (
	pageSide    = 4096
	pageThreads = 512
)

// Side implements [engine.Driver].
func (d *driver) Side(ctx context.Context, thread checkpoint.ThreadID, q engine.SideQuery) (all []engine.SideRow, err error) {
	from, to := "["+string(q.From), "+"
	if q.Below != nil {
		to = "(" + string(q.Below)
	}
	for {
		n := pageSide
		if q.Limit > 0 {
			n = min(n, q.Limit-len(all))
		}
		first, last := from, to
		if q.Desc {
			first, last = to, from
		}
		out, err := d.eval(ctx, "read from", sideScript, thread, flag(q.Desc), first, last, n)
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(out); i += 2 {
			r, err := sideRow(thread, out[i], out[i+1])
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		if len(out) < 2*n || len(all) == q.Limit {
			return all, nil
		}
		if next := "(" + out[len(out)-2]; q.Desc {
			to = next
		} else {
			from = next
		}
	}
}

// sideRow reads a side row: the token of the commit that put it, its order, and its value.
func sideRow(thread checkpoint.ThreadID, key, stored string) (engine.SideRow, error) {
	order, value, ok := strings.Cut(stored[min(tokenLen, len(stored)):], ";")
	n, err := strconv.ParseInt(order, 10, 64)
	if !ok || err != nil {
		return engine.SideRow{}, damage(thread, fmt.Sprintf("side row %x", key), errors.New("it is missing, or cut off"))
	}
	return engine.SideRow{Key: []byte(key), Value: []byte(value), Order: n}, nil
}

// Logs implements [engine.Driver].
func (d *driver) Logs(ctx context.Context, thread checkpoint.ThreadID) (all []engine.Row, err error) {
	out, err := d.eval(ctx, "list logs of", logsScript, thread)
	if err != nil {
		return nil, err
	}
	for i := 0; i+2 < len(out); i += 3 {
		r, err := row(thread, out[i], out[i+1], out[i+2], "")
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b engine.Row) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return all, nil
}

// List implements [engine.Driver].
func (d *driver) List(ctx context.Context, q engine.ListQuery) (page []engine.Listed, below int64, more bool, err error) {
	from, to := "("+timeKey(q.Below), "-"
	if q.Prefix != "" {
		from, to = "+", "["+q.Prefix
		if end := engine.Below([]byte(q.Prefix)); end != nil {
			from = "(" + string(end)
		}
	}
	below = q.Below
	for {
		args := []any{flag(q.Prefix != ""), from, to, pageThreads, q.Want - len(page)}
		for _, l := range q.Labels {
			if q.Prefix == "" { // else who reads the page looks at them
				args = append(args, l)
			}
		}
		out, err := d.eval(ctx, "list threads of", listScript, "", args...)
		if err != nil {
			return nil, 0, false, err
		}
		if len(out)%5 != 2 {
			return nil, 0, false, d.unexpected("list threads of", out)
		}
		for i := 2; i < len(out); i += 5 {
			l, err := listed(out[i : i+5])
			if err != nil {
				return nil, 0, false, err
			}
			below = min(below, l.Header.Minute)
			page = append(page, l)
		}
		switch {
		case out[0] == "":
			return page, below, false, nil
		case out[1] == "1":
			return page, below, true, nil
		}
		from = "(" + out[0]
	}
}

// listed reads what lua/list.lua says of a thread.
func listed(f []string) (l engine.Listed, err error) {
	l.Thread = checkpoint.ThreadID(f[0])
	if l.Header, err = engine.ParseHeader(l.Thread, []byte(f[1])); err != nil {
		return l, err
	}
	if l.Head, err = row(l.Thread, "", f[2], f[3], ""); err != nil {
		return l, err
	}
	first, err := row(l.Thread, "", f[2], f[4], "")
	l.First = first.At
	return l, err
}

// Waiting implements [engine.Driver].
func (d *driver) Waiting(ctx context.Context, q engine.WaitQuery) (page []engine.Waiter, err error) {
	index, from, to := "i:due", "-", "+"
	if q.Leased {
		index = "i:lease"
	}
	if !q.After.IsZero() {
		from = "(" + timeKey(q.After.UnixMicro()) + string(q.Thread)
	}
	if !q.Until.IsZero() {
		to = "(" + timeKey(q.Until.UnixMicro()+1)
	}
	for len(page) < q.Limit { // some that are gone may be left in the index
		out, err := d.eval(ctx, "list threads of", waitingScript, "", index, from, to, q.Limit-len(page))
		if err != nil {
			return nil, err
		}
		if len(out)%2 != 1 || len(out) < 3 {
			return nil, d.unexpected("list threads of", out)
		}
		now, err := clock(out)
		if err != nil {
			return nil, d.unexpected("list threads of", out)
		}
		for i := 3; i < len(out); i += 2 {
			w := engine.Waiter{Thread: checkpoint.ThreadID(out[i]), Now: now}
			if w.Header, err = engine.ParseHeader(w.Thread, []byte(out[i+1])); err != nil {
				return nil, err
			}
			page = append(page, w)
		}
		if out[2] == "" {
			break
		}
		from = "(" + out[2]
	}
	return page, nil
}

// Names implements [engine.Driver].
func (d *driver) Names(ctx context.Context, above checkpoint.ThreadID, most int) (all []checkpoint.ThreadID, err error) {
	v, err := d.call(ctx, "list threads of", false, func(ctx context.Context) (any, error) {
		return d.client.ZRangeByLex(ctx, d.prefix+"i:names", &goredis.ZRangeBy{Min: "(" + string(above), Max: "+", Count: int64(most)}).Result()
	})
	if err != nil {
		return nil, err
	}
	for _, id := range v.([]string) {
		all = append(all, checkpoint.ThreadID(id))
	}
	return all, nil
}

// Check implements [engine.Checker]: that a thread's keys and the indexes are what its
// header and its logs say.
func (d *driver) Check(ctx context.Context, thread checkpoint.ThreadID, found func(*checkpoint.CorruptError)) error {
	if thread == "" {
		return nil
	}
	out, err := d.eval(ctx, "verify in", checkScript, thread, string(thread))
	if err != nil || len(out) < 4 {
		return err
	}
	logs, err := strconv.Atoi(out[3])
	if err != nil || len(out) < 4+4*logs {
		return d.unexpected("verify in", out)
	}
	h, err := engine.ParseHeader(thread, []byte(out[0]))
	if err != nil {
		return err
	}
	add := func(place, what string) {
		found(&checkpoint.CorruptError{Thread: thread, Place: fmt.Sprintf("key %q", place), Offset: -1, Err: errors.New(what)})
	}
	if out[1] != number(h.Version) {
		add(d.threadKey(thread), "its version is not that of its header")
	}
	if out[2] != indexed(&h) {
		add(d.prefix+"i:at", "it does not say of the thread what its header says")
	}
	for l := out[4 : 4+4*logs]; len(l) > 0; l = l[4:] {
		r, err := row(thread, l[0], l[1], l[2], "") // the engine looks at the row
		if n := number(r.Count); err == nil && l[3] != n {
			add(d.threadKey(thread)+":m:"+l[0], fmt.Sprintf("%s rows, the newest says that there are %s", l[3], n))
		}
	}
	for _, index := range out[4+4*logs:] {
		if index == "s" {
			add(d.threadKey(thread)+":s", "there are not as many side rows as keys of them")
		} else {
			add(d.prefix+index, "the thread is not in it")
		}
	}
	return nil
}
