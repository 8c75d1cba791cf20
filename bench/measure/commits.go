package measure

import (
	"database/sql"
	"errors"
	"path/filepath"
)

// Commits is what a driver of SQLite takes for FewFiles × RunSteps commits of
// one row each, with the journal and the syncs that the stores have: WAL and
// NORMAL. dsn makes a data source name of a path.
func Commits(driver string, dsn func(path string) string) func(dir string) (Sample, error) {
	return func(dir string) (Sample, error) {
		db, err := sql.Open(driver, dsn(filepath.Join(dir, "commits.db")))
		if err != nil {
			return Sample{}, err
		}
		db.SetMaxOpenConns(1)
		for _, s := range []string{
			"PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL",
			"CREATE TABLE records (thread INTEGER, n INTEGER, data BLOB, PRIMARY KEY (thread, n)) WITHOUT ROWID",
		} {
			if _, err := db.Exec(s); err != nil {
				return Sample{}, errors.Join(err, db.Close())
			}
		}
		insert, err := db.Prepare("INSERT INTO records VALUES (?, ?, ?)")
		if err != nil {
			return Sample{}, errors.Join(err, db.Close())
		}
		record := make([]byte, RecordSize)
		return Sample{Close: db.Close, Do: func() error {
			for thread := range FewFiles {
				for n := range RunSteps {
					if _, err := insert.Exec(thread, n, record); err != nil {
						return err
					}
				}
			}
			return nil
		}}, nil
	}
}
