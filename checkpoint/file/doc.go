// Package file keeps threads in JSON-lines files: one file per thread, one line
// per checkpoint, readable with a text editor.
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
// Another file takes the place of a thread's, at once, when the thread is shortened
// ([engine.Engine.Rewrite]), and when more than half of its file, and more than 32 kB, is of no
// use any more: results that were dropped, leases that were renewed.
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
// [engine.Engine.Verify] finds all of it. Whole lines that a power failure took from the end,
// which only [SyncNever] allows, leave no trace.
//
// What is due is found by looking at all files of the directory, and reading the ends of
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
// Each file is UTF-8 text, but for raw bytes: see below. Each line is one compact JSON object that ends in
// ,"crc":"xxxxxxxx"} and a newline: the CRC-32C, in lower-case hexadecimal, of
// the thread's ID, a zero byte and the line up to the comma. A line has these members
// in this order, those in brackets only when there is something to say:
//
//	seq         the line's number: 1, 2, 3, ...
//	[v]         format version: the line leaves out nothing that lines before say
//	at          when it was written, or the record's time; RFC 3339
//	[thread]    the thread's ID: on the first line
//	[beside]    true: the line has no record
//	[ns]        the namespace of the record's log
//	[run]       the record's ID, without the last eight digits, if it is the first of a run, or
//	[id]        as it is; left out if it is the one after that of the record before in its log
//
//	[held]      whether the lease goes on; left out if it ends with a record of the thread's
//	            own log, and goes on without one
//	[lease]     a lease begins, or is renewed: it ends ttl nanoseconds and so many
//	            microseconds after at
//	[ttl]       left out if it is that of the last lease
//	[holder]    left out if it is that of the last lease, with the run of the line's record
//	            for that of the record with which that lease began
//	[fence]     left out if it is the one before, or one more where a lease begins after none
//	[woken]     when the thread was woken, in microseconds since 1970; 0 for never
//	[due]       when its head is due, likewise
//	[minute]    of the head, since 1970; left out if it is that of the line's record
//	[labels]    of the head's metadata: short hashes, by which threads are found
//	[version]   the header's; left out if it is one more, or nothing of the header is another
//
//	[delete]    keys of side rows that go
//	[put]       [key, value, ...]: side rows from now on; results are such
//	[clear]     beginnings of keys of side rows that go
//
//	[place]     where the record stands in its log; left out if it is seq
//	[count]     how many records the log has up to it; left out if it is place
//	[bytes]     what these take, their metadata and their data; left out if it adds up
//	[top]       the highest ID of the log up to this record, if that isn't the record's
//	[b]         the record's branch, if it has one
//	[q]         its number; left out if it is place
//	...         the record: all other members
//
// So each checkpoint is one line, those of subgraphs included; lines without a checkpoint
// say what was written between them. What a line does not say of the header is as before.
// The first line leaves out nothing, nor does at least one in 64 with a record of the
// thread's own log, so that the end of a file tells of the head.
//
// A record's members are those of the meta of [checkpoint.MarshalBody]. Its data comes last: "d"
// if it is one JSON value, "ds" for an array of several, "raw" for other bytes, such as what
// was compressed or encrypted: they stand as they are, and only ", \, newline, carriage return and
// tab are escaped as in JSON. Read as Latin-1, by a reader that lets control characters
// pass, such a line is JSON still. Left out are "v" if it is 100; and on a line without a
// format version the graph "g" if it is that of its log's first record in the file, and the parent "p"
// if it is the record before in the log and of another run.
//
// Texts and keys may hold any bytes: what is no text, has control characters or begins with
// a * is written in base64 (without padding, for URLs) after a *.
//
// A conversation with two records and 1,000 bytes of messages a turn, each turn a
// run that claims the thread, takes 1.3 times its messages, compressed 0.92 times.
package file
