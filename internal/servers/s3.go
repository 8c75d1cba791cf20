package servers

import (
	"net/http/httptest"
	"strings"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// StartS3 starts a server of object storage in this process, which keeps its one bucket in
// memory. It returns the bucket's URL.
func StartS3() (url string, stop func(), err error) {
	b := s3mem.New()
	if err := b.CreateBucket("superstep"); err != nil {
		return "", nil, err
	}
	s := httptest.NewServer(gofakes3.New(b, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	return "s3://key:secret@" + strings.TrimPrefix(s.URL, "http://") + "/superstep?region=us-east-1&insecure=true", s.Close, nil
}
