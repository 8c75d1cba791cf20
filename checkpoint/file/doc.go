// Package file keeps threads in JSON-lines files: one file per thread, one line
// per checkpoint, readable with a text editor and countable with wc -l.
//
//	store, err := file.Open("threads", file.Options{})
//
// # Guarantees
//
// A write is one line, appended to one file, so that it happened as a whole or
// not at all. With [SyncEvery], the default, it is on the disk before it is
// acknowledged; with [SyncNever] it outlives the process but not the power. A
// write that fails takes back what it wrote and leaves the store usable. Earlier
// bytes never change, and an append costs the same whatever the file's length.
// Only [Store.Rewrite] puts another file in the place of a thread's, at once.
//
// Stores of one process or of several may share a directory: an advisory lock on
// the thread's file is held for each append, after what others appended was
// read. Leases are lines too, by the clock of the machine, so they hold across
// processes. Threads do not wait for one another. The lock is released with the
// process, however it ends. Network file systems without such locks are not
// supported.
//
// Every line carries a checksum that starts at the thread's ID, so that a bit
// that flipped, a line of another thread and a file that was moved are errors. A
// last line without its end, which is what a killed process leaves, is a
// [checkpoint.CorruptError] with file, line and byte offset; [Repair] or
// [Options].Recover moves it to a side file, <name>.jsonl.damaged, and the next
// write goes on with the right number. (A last line that is whole and lacks only
// its newline is kept.) Damage anywhere else is never skipped.
// [Store.Verify] finds all of it.
//
// What is due is found by looking at all files of the directory, and reading
// those that changed since the last look: polling is for thousands of threads.
//
// # Names
//
// The file of a thread is <id>.jsonl if the ID is safe. Else / \ : * ? " < > |
// and control characters become _, dots and white space are trimmed off both
// ends, at most 100 bytes are kept, names that Windows reserves get a _ in
// front, and a tilde and 12 hexadecimal digits of the ID's SHA-256 are appended;
// an ID of which nothing is left gets thread-<digits>. An ID is safe when all of
// that changes nothing, when it has no upper-case letters, no letters outside
// ASCII but Chinese characters and symbols (file systems that fold case or
// normalise Unicode would mix such threads up), and when it does not look like a
// name with a hash. [FileName] tells the name.
//
// # Format
//
// Each file is UTF-8 text. Each line is one compact JSON object that ends in
// ,"crc":"xxxxxxxx"} and a newline: the CRC-32C, in lower-case hexadecimal, of
// the thread's ID, a zero byte and the line up to the comma. A line of the
// thread's file has these members in this order, those in brackets only when
// there is something to say:
//
//	seq         1 for the file's first line, then growing by one, and by skip
//	created_at  the record's time, RFC 3339
//	[v]         format version: 2 if the line has one of the members marked *, 3 if
//	            it has a lease in short, else 1; on the first line, and where it is
//	            not 1
//	[thread]    the thread's ID; on the first line
//	[skip]      * lines removed before this one; on the first line of a file that
//	            was shortened even if it is 0
//	[gone]      * true: the line's record was removed, and nothing else is in it.
//	            A shortened file keeps its last line, whose seq others name
//	[log]       0 or absent: the log with the empty namespace; else the log's
//	            number, counted from 1 in the order of first records
//	[ns]        the log's namespace, on its first line
//	[claim]     the thread's new fence; ends the lease and what woke the thread. The
//	            first is the time in microseconds since 1970, so that it is above
//	            those of a deleted thread of the same name
//	[lease]     * {"holder","until","ttl"}: the lease from now on; ttl in nanoseconds.
//	            In short [late, ttl, place] or less: it ends ttl and late, which is
//	            in milliseconds, after created_at, and its holder is the ID of the run
//	            that wrote the record, followed by place. A ttl and a place left out
//	            are those of the lease before it in this file
//	[release]   true: the lease ends. Left out when a line before has version 3 and
//	            this one has no held
//	[held]      true: an earlier line says of a lease or of waking what still counts.
//	            Without it a line with a record ends an earlier lease
//	[wake]      * when the thread was woken, RFC 3339
//	[remove]    * [{"branch","epoch","task","gen","kind","name"}]: single results
//	            removed by this write, before others are put
//	[drop]      {"branch","epoch"}: results removed by this write
//	[results]   results put by this write and not dropped by it
//	[own]       true: the record repeats what earlier lines say
//	checkpoint  the record, as [checkpoint.Marshal] encodes it, but without
//	            what the line and the lines before say
//
// Left out of a record are: its time; format ("v") 100; the sequence number "q"
// if it is seq; and, unless own is true or it is its log's first, the graph "g"
// if it is that of the log's first record, and the parent "p" if it is the log's
// record before. (With own, and for a log's first record, an absent "p" and "g"
// mean what they mean to [checkpoint.Unmarshal].)
//
// So each line is one checkpoint, and a thread's lines are its checkpoints, those
// of its subgraphs included. Strings that are not valid UTF-8 are written as
// {"hex":"..."} in thread, ns and holder. A program that knows version 1 alone
// reads files without lines of version 2 or 3, and refuses others.
//
// Writes without a record (results of tasks of the open superstep, claims, leases)
// go to a companion file, <name>.pending, with members seq, [v], [thread], after,
// [reset], [ns], [claim], [lease], [release], [wake], [remove], [drop], [results];
// after is the seq of the last line of the thread's
// file at that time, which puts the lines of both files in one order. The
// companion is scratch: it is written anew without what was dropped when it has
// grown to 32 kB and at least twice what it was. On its first line, reset: true
// (version 2) says that what earlier lines say of leases, waking and results
// counts no more: the companion says it again. That comes before a file is
// shortened, so that its lines can go. A companion that names lines while the
// thread's file has none is left over from a deletion and ignored.
//
// A conversation with two records and 1,000 bytes of messages a turn, each turn a
// run that claims the thread, takes less than 1.5 times its messages.
package file
