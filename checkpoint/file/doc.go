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
//	at          when it was written, or the record's time; RFC 3339
//	[v]         format version, and
//	[thread]    the thread's ID: on the first line
//	[ns]        the namespace of the record's log
//
//	[held]      true: the line has a record of the thread's own log, and says nothing of
//	            the header
//	[version]   how much the header's version grew; left out on a line with a record of
//	            that log if it is 1, or 0 when nothing else changed
//	[fence]     how much the fence grew
//	[lease]     [late, ttl, holder, 1]: the lease from now on. It ends ttl nanoseconds and
//	            late microseconds after at. With 1 the holder begins with the ID
//	            of the run of the line's record, which the line says. Only [late] means what the lease before,
//	            in this file, says
//	[claim]     the same, with a fence that grew by 1
//	[woken]     when the thread was woken, in microseconds since 1970
//	[due]       when its head is due, likewise
//	[minute]    of the head, since 1970; left out if it is that of the line's record
//	[labels]    of the head's metadata: short hashes, by which threads are found
//
//	[delete]    keys of side rows that go
//	[put]       [[key, value], ...]: side rows from now on; results are such
//	[clear]     beginnings of keys of side rows that go
//
//	[place]     where the record stands in its log; left out if it is seq
//	[count]     how many records the log has up to it; left out if it is place
//	[bytes]     what these take, their metadata and their data; left out if it adds up
//	[top]       the highest ID of the log up to this record, if that isn't the record's
//	[own]       true: the record leaves out nothing that earlier lines say
//	...         the record: all other members
//
// So each checkpoint is one line, those of subgraphs included; lines without a checkpoint
// say what was written between them. What a line says of the header replaces all of it but
// version and fence: a line with a record of the thread's own log and none of these
// members ends the lease.
//
// A record's members are those of the meta of [checkpoint.MarshalBody], after these: its ID
// "id", or of the first of a run "run", which is the ID without the last eight digits; its
// branch "b", if it has one; and its number "q", if it is not place. Its data comes last: "d"
// if it is one JSON value, "ds" for an array of several, "raw" for other bytes, such as what
// was compressed or encrypted: they stand as they are, and only ", \, newline, carriage return and
// tab are escaped as in JSON. Read as Latin-1, by a reader that lets control characters
// pass, such a line is JSON still.
//
// Left out are "v" if it is 100; the ID, if it is the next one of its run after the record
// before in its log; and unless own is true the graph "g" if it is that of its log's first
// record in the file, and the parent "p" if it is the record before in the log and of
// another run. Each 32nd record of a log says its ID and its bytes in any case, so that the
// end of a file tells of the head.
//
// Texts and keys may hold any bytes. A byte that is not of UTF-8 is written as \udcXX,
// which no text has; or the whole text in base64 (without padding, for URLs) after a *.
//
// A conversation with two records and 1,000 bytes of messages a turn, each turn a
// run that claims the thread, takes 1.3 times its messages, compressed 0.92 times.
package file
