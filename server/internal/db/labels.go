package db

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
)

// unknown is the label of a thread of which not all labels are known: it is looked at
// whatever is searched for.
const unknown = ""

// maxLabels is how many members of a thread's metadata have labels.
const maxLabels = 64

// columns are the members of metadata that a search knows by a column.
var columns = []string{"graph_id", "assistant_id"}

// Labels returns a short text for each member of JSON metadata that is a text, a
// number, a boolean or null, in order: by these, a search finds the threads that have
// such members. Two members may, very rarely, have the same label. The labels of
// members that a search knows otherwise are left out.
func Labels(metadata json.RawMessage) []string {
	var members map[string]any
	_ = json.Unmarshal(metadata, &members)
	var out []string
	for k, v := range members {
		switch n := v.(type) {
		case map[string]any, []any:
			continue
		case float64:
			v = math.Float64bits(n + 0) // there are two zeros, and they are equal
		}
		if slices.Contains(columns, k) {
			continue
		}
		pair, err := json.Marshal([]any{k, v})
		if err != nil {
			continue
		}
		sum := sha256.Sum256(pair)
		out = append(out, hex.EncodeToString(sum[:8]))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// relabel has a thread's labels be those of its metadata. It is called before the thread
// is encoded, which has them too, and reports whether they changed: then put them.
func (t *Thread) relabel() (changed bool) {
	labels := Labels(t.Metadata)
	if len(labels) > maxLabels {
		labels = []string{unknown}
	}
	changed = !slices.Equal(labels, t.Labels)
	t.Labels = labels
	return changed
}

// putLabels stores a thread's labels, instead of those that it had.
func (d *DB) putLabels(ctx context.Context, e execer, t *Thread) error {
	if _, err := d.exec(ctx, e, `DELETE FROM @superstep_server_labels WHERE thread = ?`, t.ID); err != nil {
		return err
	}
	for _, l := range t.Labels {
		if _, err := d.exec(ctx, e, `INSERT INTO @superstep_server_labels (label, thread) VALUES (?, ?)`, l, t.ID); err != nil {
			return err
		}
	}
	return nil
}
