package checkpoint

import (
	"context"
	"errors"
	"fmt"
)

// Latest returns the newest record of a log or, when its namespace is empty, the
// newest by CreatedAt of all logs of its thread, those of subgraphs included. It
// returns nil without an error when there is none. Looking at all logs needs a
// store that is a [Lister].
func Latest(ctx context.Context, s Store, log Log) (*Record, error) {
	if log.Namespace != "" {
		return head(ctx, s, log)
	}
	if err := log.Check(); err != nil {
		return nil, err
	}
	l, ok := s.(Lister)
	if !ok {
		return nil, fmt.Errorf("newest record of thread %q: %T can't list the logs of a thread: %w", log.Thread, s, errors.ErrUnsupported)
	}
	var newest *Record
	for info, err := range l.Logs(ctx, log.Thread) {
		if err != nil {
			return nil, err
		}
		r, err := head(ctx, s, info.Log)
		if err != nil {
			return nil, err
		}
		if r != nil && (newest == nil || r.CreatedAt.After(newest.CreatedAt)) {
			newest = r
		}
	}
	return newest, nil
}

// head is Head without ErrNotFound.
func head(ctx context.Context, s Store, log Log) (*Record, error) {
	r, _, err := s.Head(ctx, log)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return r, err
}
