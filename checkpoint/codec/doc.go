// Package codec wraps any [checkpoint.Store] to keep its records and results in
// another form: encrypted, compressed, in binary, or several of these.
//
//	keys := codec.KeyRing{Current: key}
//	store, err := codec.Wrap(inner, codec.Options{Keys: &keys, Compress: true})
//
// # What is encrypted
//
// Of a record: the changes, the snapshot, the planned tasks with their payloads,
// questions and answers, node names, the graph's name, metadata, errors, and all
// else that the list below doesn't name. Of a result: its data and its name.
//
// The cipher is XAES-256-GCM (c2sp.org/XAES-256-GCM): AES-256-GCM under a key that
// is derived for each record from random bytes, so that random nonces are safe for
// any number of records. It is built on the standard library. The keys that
// encrypt and that hash names are derived from the keys of the ring by
// HKDF-SHA256, one for each purpose.
//
// Authenticated with it is what the thing is and where it stands. For a record:
// thread, namespace, ID, parent, branch, sequence number, lineage, epoch, source,
// times of creation and of the deadline, and which of its two parts it is. For a
// result: thread, namespace, branch, epoch, task, generation, kind, hashed name,
// and whether it replaces. Something that was changed, moved to another place, or
// put together from two records, is refused with an error that wraps
// [checkpoint.ErrCorrupt]. So is what was sealed with another key of the same ID.
// A key that the ring does not have is [ErrKey].
//
// There is no way around it: with keys, what stands in clear in the store is
// refused with [ErrPlain], and nothing is ever written in clear. The exception is
// [Options.AllowPlain], for the time in which a store is encrypted for the first
// time.
//
// # What is visible
//
// Who can read the database sees:
//
//   - IDs of threads and namespaces as they are. A namespace names the nodes of
//     subgraphs. Don't put secrets into them.
//   - Of each record its ID, parent, branch, lineage, sequence number and epoch,
//     its source (input, loop, interrupt, ...), when it was made and when the
//     clock would answer a question: the course of a thread, not its content.
//   - Of each result its branch, epoch, task number, generation and kind (changes,
//     once, event, ...), and whether two results of one place have the same name,
//     as a store has no two of these.
//   - Leases with their holders, fences, and when a thread is to be woken.
//   - Sizes. They are not padded. With compression they depend on the content: who
//     can put text of his own into a record beside a secret, and can see the sizes,
//     may learn about the secret by trying (as in the attacks
//     CRIME and BREACH). Each part of each record is compressed alone, so this
//     takes a secret in the same record. Where it matters, leave Compress off.
//   - The IDs of keys, and what form things are in.
//
// # What is not protected
//
// Who can write to the database can remove records and results, put back an
// earlier state of a whole record, result or thread, and change leases, fences
// and wake-ups: the store cannot know what was there last. Removed records in the
// middle of a thread are noticed where the parent is looked for. He cannot make
// something up. While AllowPlain is on, he can, in clear.
//
// Keys, and what was decrypted, are in the memory of the process, and are not
// wiped. Logs, traces and error texts of nodes are not this package's.
//
// AES-GCM does not commit to its key: who knows two keys of a ring can make a
// record that opens under both. Who knows one has lost already.
//
// # Names of results
//
// A store finds a result by its name, for the first write to win. So a name is not
// encrypted but replaced by 128 bits of HMAC-SHA256 over it and the place of the
// result, and stands inside the encrypted data as well. The key for this is
// [KeyRing.Names], or derived from the oldest key of the ring; it doesn't change
// with the current key. A name that was hashed with another key is [ErrKey] when
// it is read.
//
// # Rotation
//
// Put a new key into Current and the former one in front of Old, and start all
// processes with this ring; they read both. (Give the new key to all as an old one
// first, if they cannot be started at once.) [Store.Rewrap] then seals a thread
// anew under the current key. To take the oldest key out of the ring, set Names to
// the current key, and call Rewrap for every thread while no run is under way:
// runs of processes with different Names would not find one another's results.
// [Store.Verify] tells whether anything still needs a key that is gone.
//
// # The form of what is stored
//
// What is compressed is a frame of Zstandard, by a dictionary that is a part of this package
// and stays so for ever: the frame names it by its number.
//
// The first byte of each part says what was done to it. So options may change at
// any time, and a thread may be mixed. What a newer version of this package wrote
// in a form that this one doesn't know is [checkpoint.ErrVersion].
package codec
