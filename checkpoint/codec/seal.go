package codec

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
)

// What is stored:
//
//	record, meta   flags, if encrypted: key ID with its length in front, 23 bytes of nonce; content
//	record, data   flags, content; no part if there is no data
//	result, data   a string of marker and base64 of: as meta
//
// Content is packed by Store.pack and, if encrypted, sealed by XAES-256-GCM. The
// last byte of the nonce is not stored: it is one of the parts below. So both
// parts of a record have one nonce in common and belong together: meta of one
// writing doesn't go with data of another.
const (
	partMeta   = 1
	partData   = 2
	partResult = 3

	savedNonce = nonceSize - 1
)

// marker begins the data of results that were sealed.
const marker = `"superstep:sealed:`

var base64Form = base64.RawURLEncoding.Strict()

// identity is what something is and where it stands, written so that two that
// differ are never written the same: it is authenticated with what is sealed.
type identity []byte

func (id identity) num(n int64) identity { return binary.BigEndian.AppendUint64(id, uint64(n)) }

func (id identity) str(s string) identity { return append(id.num(int64(len(s))), s...) }

func (id identity) time(t time.Time) identity {
	return id.num(t.Unix()).num(int64(t.Nanosecond()))
}

func identify(kind string, log checkpoint.Log) identity {
	id := make(identity, 0, 512)
	return id.str("superstep " + kind).str(string(log.Thread)).str(log.Namespace)
}

func recordIdentity(r *checkpoint.Record) identity {
	id := identify("record", r.Log).str(string(r.ID)).str(string(r.Parent)).str(string(r.Branch)).num(r.Seq)
	id = id.num(int64(len(r.Lineage)))
	for _, s := range r.Lineage {
		id = id.str(string(s.Branch)).num(s.To)
	}
	return id.str(string(r.Epoch)).str(string(r.Source)).time(r.CreatedAt).time(r.Due)
}

// keyIdentity is of all results with this key, but for the name.
func keyIdentity(log checkpoint.Log, k *checkpoint.ResultKey) identity {
	return identify("result", log).str(string(k.Branch)).str(string(k.Epoch)).num(int64(k.Task)).num(int64(k.Gen)).str(string(k.Kind))
}

func resultIdentity(log checkpoint.Log, r *checkpoint.Result) identity {
	k := r.Key()
	id := keyIdentity(log, &k).str(r.Name)
	if r.Replace {
		return append(id, 1)
	}
	return append(id, 0)
}

// text is what is hashed for a name.
func (id identity) text(name string) []byte { return slices.Clip(id).str(name) }

// part is what is authenticated with one part.
func (id identity) part(part byte, header []byte) []byte {
	return append(append(slices.Clip(id), part), header...)
}

// nonce is random but for the part, which comes last.
type nonce [nonceSize]byte

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:savedNonce]) // it does not fail
	return n
}

func (n *nonce) of(part byte) []byte {
	n[savedNonce] = part
	return n[nonceSize-12:]
}

// header appends what precedes the content of a first part.
func (k *sealer) header(dst []byte, flags byte, n *nonce) []byte {
	dst = append(dst, flags|flagEncrypted, byte(len(k.id)))
	return append(append(dst, k.id...), n[:savedNonce]...)
}

// room is what sealing adds at most.
const room = 1 + 1 + maxKeyID + savedNonce + 16

// sealFirst returns meta, or the data of a result.
func (s *Store) sealFirst(id identity, part, flags byte, content []byte) (out []byte, n nonce, a cipher.AEAD) {
	out = make([]byte, 0, room+len(content))
	if s.ring == nil {
		return append(append(out, flags), content...), n, nil
	}
	n = newNonce()
	out = s.ring.current.header(out, flags, &n)
	a = s.ring.current.aead.derive([12]byte(n[:12]))
	return a.Seal(out, n.of(part), content, id.part(part, out)), n, a
}

// opened is a first part taken apart.
type opened struct {
	flags   byte
	key     string // the ID; empty if it is not encrypted
	content []byte
	nonce   nonce
	aead    cipher.AEAD
}

// openFirst undoes sealFirst.
func (s *Store) openFirst(id func() identity, part byte, b []byte) (o opened, err error) {
	if len(b) == 0 {
		return o, errors.New("it is empty")
	}
	o.flags = b[0]
	if err := checkVersion(o.flags); err != nil {
		return o, err
	}
	if o.flags&flagEncrypted == 0 {
		if err := s.plain(); err != nil {
			return o, err
		}
		o.content = b[1:]
		return o, nil
	}
	if len(b) < 2 || len(b) < 2+int(b[1])+savedNonce {
		return o, errors.New("it ends too early")
	}
	head := 2 + int(b[1])
	o.key = string(b[2:head])
	if s.ring == nil || s.ring.all[o.key] == nil {
		return o, &KeyError{Key: o.key}
	}
	copy(o.nonce[:], b[head:head+savedNonce])
	head += savedNonce
	o.aead = s.ring.all[o.key].aead.derive([12]byte(o.nonce[:12]))
	o.content, err = o.aead.Open(nil, o.nonce.of(part), b[head:], id().part(part, b[:head]))
	if err != nil {
		return o, errOpen
	}
	return o, nil
}

// plain returns an error if nothing may stand in clear.
func (s *Store) plain() error {
	if s.ring != nil && !s.allowPlain {
		return ErrPlain
	}
	return nil
}

// seal returns what the store is given for a record.
func (s *Store) seal(r *checkpoint.Record) (*checkpoint.Record, error) {
	body := *r
	// What stays in clear is not written twice. These values take no space. Times of
	// changes are relative to CreatedAt.
	body.Parent, body.Epoch, body.Lineage = "", r.ID, nil
	if r.ID.Valid() {
		body.Parent = r.ID.Checkpoint(r.ID.Count() - 1)
	}
	body.Source, body.Due = "", time.Time{}
	meta, data, err := checkpoint.MarshalBody(&body)
	if err != nil {
		return nil, err
	}
	var id identity
	if s.ring != nil {
		id = recordIdentity(r)
	}
	flags, content := s.pack(meta)
	if len(data) > 0 {
		flags |= flagData
	}
	out := &checkpoint.Sealed{}
	var n nonce
	var a cipher.AEAD
	out.Meta, n, a = s.sealFirst(id, partMeta, flags, content)
	if len(data) > 0 {
		flags, content = s.pack(data)
		out.Data = make([]byte, 0, 1+len(content)+16)
		if a == nil {
			out.Data = append(append(out.Data, flags), content...)
		} else {
			out.Data = append(out.Data, flags|flagEncrypted)
			out.Data = a.Seal(out.Data, n.of(partData), content, id.part(partData, out.Data))
		}
	}
	c := clear(r)
	c.Sealed = out
	return c, nil
}

// clear returns what of a record is not sealed.
func clear(r *checkpoint.Record) *checkpoint.Record {
	return &checkpoint.Record{
		ID: r.ID, Parent: r.Parent, Log: r.Log, Branch: r.Branch, Seq: r.Seq, Lineage: r.Lineage,
		Epoch: r.Epoch, Source: r.Source, CreatedAt: r.CreatedAt, Due: r.Due,
	}
}

// open returns the record that was sealed. Without data, it is as [Query.Meta]
// has it.
func (s *Store) open(r *checkpoint.Record, withData bool) (*checkpoint.Record, error) {
	out, _, err := s.openAs(r, r.Log, withData)
	return out, err
}

// openAs is open for a record that was sealed in another log. It tells the key,
// empty if the record is in clear.
func (s *Store) openAs(r *checkpoint.Record, log checkpoint.Log, withData bool) (*checkpoint.Record, string, error) {
	fail := func(err error) (*checkpoint.Record, string, error) {
		return nil, "", failed(r.Log.Thread, recordPlace(r), err)
	}
	if r.Sealed == nil {
		if err := s.plain(); err != nil {
			return fail(err)
		}
		return r, "", nil
	}
	var made identity
	id := func() identity {
		if made == nil {
			as := *r
			as.Log = log
			made = recordIdentity(&as)
		}
		return made
	}
	o, err := s.openFirst(id, partMeta, r.Sealed.Meta)
	if err != nil {
		return fail(err)
	}
	meta, err := s.unpack(o.flags, o.content)
	if err != nil {
		return fail(err)
	}
	var data []byte
	switch b := r.Sealed.Data; {
	case !withData:
	case o.flags&flagData == 0:
		if len(b) > 0 {
			return fail(errors.New("it has data that does not belong to it"))
		}
		data = []byte{}
	case len(b) == 0:
		return fail(errors.New("its data is missing"))
	default:
		if data, err = s.openData(&o, id, b); err != nil {
			return fail(err)
		}
	}
	out := &checkpoint.Record{ID: r.ID, Log: r.Log, Branch: r.Branch, Seq: r.Seq, CreatedAt: r.CreatedAt}
	if err := checkpoint.UnmarshalBody(out, meta, data); err != nil {
		return fail(err)
	}
	out.Parent, out.Lineage, out.Epoch = r.Parent, r.Lineage, r.Epoch
	out.Source, out.CreatedAt, out.Due = r.Source, r.CreatedAt, r.Due
	return out, o.key, nil
}

func (s *Store) openData(o *opened, id func() identity, b []byte) ([]byte, error) {
	flags, content := b[0], b[1:]
	if err := checkVersion(flags); err != nil {
		return nil, err
	}
	if flags&flagEncrypted != o.flags&flagEncrypted {
		return nil, errors.New("one part of it is encrypted and the other is not")
	}
	if o.aead != nil {
		var err error
		if content, err = o.aead.Open(nil, o.nonce.of(partData), content, id().part(partData, b[:1])); err != nil {
			return nil, errOpen
		}
	}
	data, err := s.unpack(flags, content)
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// sealResult returns what the store is given for a result.
func (s *Store) sealResult(log checkpoint.Log, r *checkpoint.Result) (checkpoint.Result, error) {
	if len(r.Data) > 0 && !json.Valid(r.Data) {
		return checkpoint.Result{}, fmt.Errorf("codec: %s of thread %q cannot be stored: its data is not JSON", resultPlace(log, r), log.Thread)
	}
	out := *r
	if s.ring == nil {
		// The text stays as it is unless that saves space, or unless it could be
		// taken for something sealed.
		flags, content := s.compressed(r.Data)
		if flags != 0 || isSealed(r.Data) {
			first, _, _ := s.sealFirst(nil, partResult, version|flags, content)
			if text := quoteSealed(first); len(text) < len(r.Data) || isSealed(r.Data) {
				out.Data = text
			}
		}
		return out, nil
	}
	out.Name = s.hash(log, r.Key()).Name
	plain := binary.AppendUvarint(make([]byte, 0, 10+len(r.Name)+len(r.Data)), uint64(len(r.Name)))
	plain = append(append(plain, r.Name...), r.Data...)
	flags, content := s.compressed(plain)
	first, _, _ := s.sealFirst(resultIdentity(log, &out), partResult, version|flags, content)
	out.Data = quoteSealed(first)
	return out, nil
}

// hash returns the key under which the store knows a result.
func (s *Store) hash(log checkpoint.Log, k checkpoint.ResultKey) checkpoint.ResultKey {
	if s.ring != nil {
		k.Name = s.ring.hash(keyIdentity(log, &k), k.Name)
	}
	return k
}

func quoteSealed(b []byte) json.RawMessage {
	out := make([]byte, 0, len(marker)+base64Form.EncodedLen(len(b))+1)
	return append(base64Form.AppendEncode(append(out, marker...), b), '"')
}

func isSealed(data json.RawMessage) bool {
	return len(data) >= len(marker) && string(data[:len(marker)]) == marker
}

// openResult returns the result that was sealed. Log is where it was sealed. If
// renamed is not nil, a name that was hashed with another key is let pass, and
// told there.
func (s *Store) openResult(at, log checkpoint.Log, r *checkpoint.Result, renamed *bool) (out checkpoint.Result, key string, err error) {
	fail := func(err error) (checkpoint.Result, string, error) {
		return checkpoint.Result{}, "", failed(at.Thread, resultPlace(at, r), err)
	}
	if !isSealed(r.Data) {
		if err := s.plain(); err != nil {
			return fail(err)
		}
		return *r, "", nil
	}
	text := r.Data[len(marker):]
	if len(text) == 0 || text[len(text)-1] != '"' {
		return fail(errors.New("the string has no end"))
	}
	b, err := base64Form.AppendDecode(nil, text[:len(text)-1])
	if err != nil {
		return fail(err)
	}
	o, err := s.openFirst(func() identity { return resultIdentity(log, r) }, partResult, b)
	if err != nil {
		return fail(err)
	}
	plain, err := s.unpack(o.flags, o.content)
	if err != nil {
		return fail(err)
	}
	out = *r
	out.Data = plain
	if o.key == "" {
		return out, "", nil
	}
	n, k := binary.Uvarint(plain)
	if k <= 0 || n > uint64(len(plain)-k) {
		return fail(errors.New("it has no name"))
	}
	out.Name, out.Data = string(plain[k:k+int(n)]), plain[k+int(n):]
	if len(out.Data) == 0 {
		out.Data = nil
	}
	if hashed := s.hash(log, out.Key()); hashed.Name != r.Name {
		if renamed == nil {
			return fail(&KeyError{})
		}
		*renamed = true
	}
	return out, o.key, nil
}
