package a2a

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// An answer without a body is there although its handler has ended before it is looked at.
func TestAnEmptyAnswerFromInsideIsAnAnswer(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	c := http.Client{Transport: inside{h, httptest.NewRequest(http.MethodPost, "/", nil)}}
	var all sync.WaitGroup
	for range 32 { // so that some are looked at late
		all.Go(func() {
			for range 500 {
				resp, err := c.Post("http://server/cancel", "", nil)
				if err != nil {
					t.Error(err)
					return
				}
				if resp.Body.Close(); resp.StatusCode != http.StatusNoContent {
					t.Error(resp.Status)
				}
			}
		})
	}
	all.Wait()
}
