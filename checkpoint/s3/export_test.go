package s3

import "time"

// Patient returns options with which a write waits for so long for its answer.
func Patient(d time.Duration) Options { return Options{patience: d} }
