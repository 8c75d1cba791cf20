package vendor

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns how long a response asks to wait, in milliseconds, in seconds
// or until a date; 0 if it doesn't. A time beyond what a Duration holds is the
// longest one.
func RetryAfter(h http.Header) time.Duration {
	if d, ok := duration(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	v := h.Get("Retry-After")
	if d, ok := duration(v, time.Second); ok {
		return d
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	now := time.Now()
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent // the clocks may differ
	}
	return max(at.Sub(now), 0)
}

func duration(s string, unit time.Duration) (time.Duration, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil && !math.IsInf(f, 1) || math.IsNaN(f) || f < 0 {
		return 0, false
	}
	if f *= float64(unit); f < math.MaxInt64 {
		return time.Duration(f), true
	}
	return math.MaxInt64, true
}
