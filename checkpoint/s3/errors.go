package s3

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"

	"github.com/superstep-dev/superstep/internal/backend"
)

// Kinds of [Error], beside [checkpoint.ErrVersion].
var (
	ErrURL         = errors.New("URL is not valid")
	ErrUnreachable = errors.New("server cannot be reached")
	ErrDenied      = errors.New("server denies access")
	ErrBucket      = errors.New("there is no such bucket")
	ErrClock       = errors.New("clocks differ")
	ErrOverloaded  = errors.New("server takes fewer requests")

	// ErrConditions: the server ignores If-Match or If-None-Match, so writers would undo
	// one another's writes.
	ErrConditions = errors.New("server has no conditional writes")

	// ErrUncertain: a write was sent and no answer came. It happened as a whole
	// or not at all; the head of the log tells.
	ErrUncertain = errors.New("outcome of the write is unknown")
)

// Error says what went wrong with a server and what to do about it. It never
// holds a secret. Its fields: what
// was tried (Op), the host:port/bucket/prefix (Place), one of the errors of this package or of package
// checkpoint (Kind), what is wrong if that does not say it all (What), what to do (Fix), and
// the client's or the server's error, which may be nil (Err).
type Error = backend.Error

// How a request for an object may end.
var (
	errAbsent = errors.New("there is no such object")
	errSame   = errors.New("it has not changed")
)

// answered returns the server's answer that err is, if it is one. The client makes one of
// an answer that is not in the language of S3, too.
func answered(err error) (minio.ErrorResponse, bool) {
	r, ok := errors.AsType[minio.ErrorResponse](err)
	return r, ok && r.StatusCode != 0
}

// conditional reports whether err is the answer to a conditional write that its condition
// does not hold, or is not known to as another write is under way.
func conditional(err error) bool {
	r, _ := answered(err)
	return r.StatusCode == http.StatusPreconditionFailed || r.StatusCode == http.StatusConflict || r.Code == minio.NoSuchKey
}

// refused reports whether err is an answer to a write that says that it was not done.
func refused(err error) bool {
	r, _ := answered(err)
	return r.StatusCode/100 == 4 && r.StatusCode != http.StatusRequestTimeout || r.StatusCode == http.StatusNotImplemented
}

// explain turns an error of the client into one that says what to do.
func (b *bucket) explain(op string, err error) error {
	e := &Error{Package: "s3", Op: op, Place: b.place, Err: err}
	r, ok := answered(err)
	_, request := errors.AsType[*url.Error](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case !ok && (request || network || errors.Is(err, io.ErrUnexpectedEOF)):
		e.Kind, e.Fix = ErrUnreachable, "start the server, or check host, port, TLS (insecure=true is for servers without it) and firewalls"
	case r.Code == minio.NoSuchBucket:
		e.Kind, e.Fix = ErrBucket, fmt.Sprintf("create bucket %q, or correct its name", b.name)
	case r.Code == "RequestTimeTooSkewed":
		e.Kind, e.Fix = ErrClock, "set this machine's clock, such as by NTP"
	case r.StatusCode == http.StatusUnauthorized, r.StatusCode == http.StatusForbidden:
		e.Kind = ErrDenied
		e.Fix = "check key and secret, and allow the key to get, put, delete and list objects of the bucket: s3:GetObject, s3:PutObject, s3:DeleteObject, s3:ListBucket"
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode == http.StatusServiceUnavailable:
		e.Kind, e.Fix = ErrOverloaded, "try again later, or run fewer threads at once"
	case r.StatusCode == http.StatusNotImplemented:
		e.Kind, e.Fix = ErrConditions, fixConditions
	default:
		return fmt.Errorf("s3: %s %s: %w", op, b.place, err)
	}
	return e
}

const fixConditions = "use a server that honours If-Match and If-None-Match of PutObject, as AWS and MinIO do"

func (b *bucket) uncertain(op string, err error) error {
	return &Error{
		Package: "s3", Op: op, Place: b.place, Kind: ErrUncertain, What: "no answer came: whether the write happened is unknown", Err: err,
		Fix: "read the thread's head when the server is back: the write is there as a whole or not at all",
	}
}
