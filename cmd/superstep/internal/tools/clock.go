package tools

import (
	"errors"
	"fmt"
	"time"
)

// ErrZone says that there is no such time zone.
var ErrZone = errors.New("there is no such time zone: give a name such as Europe/Berlin or UTC")

// clock tells the time in a zone.
func clock(now time.Time, zone string) (string, error) {
	if zone != "" {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			return "", fmt.Errorf("%q: %w", zone, ErrZone)
		}
		now = now.In(loc)
	}
	return now.Format("Monday, 2006-01-02 15:04:05 MST (-07:00)"), nil
}
