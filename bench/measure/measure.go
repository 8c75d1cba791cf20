package measure

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// A Sample is one execution of a workload. What it needs is made before and
// closed after it, untimed.
type Sample struct {
	Do     func() error
	Close  func() error // nil if there is nothing to close
	Stored string       // the file whose size counts once all is closed
}

// A Peer is what is measured: its name, the version of it, and for each
// workload that it has a function that makes a sample in an empty folder. NA
// says why it doesn't have the others, Notes what is different in what it does.
type Peer struct {
	Name, Version string
	Run           map[string]func(dir string) (Sample, error)
	NA, Notes     map[string]string
}

// A Result is a line that a peer prints: what one unit of a workload took.
type Result struct {
	Peer     string  `json:"peer"`
	Version  string  `json:"version"`
	Workload string  `json:"workload"`
	Ns       float64 `json:"ns,omitempty"`
	CPU      float64 `json:"cpu,omitempty"` // nanoseconds of all cores
	Allocs   float64 `json:"allocs,omitempty"`
	Bytes    float64 `json:"bytes,omitempty"`  // allocated
	Stored   float64 `json:"stored,omitempty"` // on disk
	Samples  int     `json:"samples,omitempty"`
	Note     string  `json:"note,omitempty"`
	NA       string  `json:"na,omitempty"` // why it wasn't measured
}

// Main measures what the command line asks for and prints a line for each.
func Main(p Peer) {
	only := flag.String("workload", "", "the workload to measure; all without")
	budget := flag.Duration("for", 500*time.Millisecond, "how long to measure each at least")
	flag.Parse()
	out := json.NewEncoder(os.Stdout)
	for _, w := range Workloads {
		if *only != "" && *only != w.Name {
			continue
		}
		r := Result{Workload: w.Name, Note: p.Notes[w.Name], NA: p.NA[w.Name]}
		if run, ok := p.Run[w.Name]; ok {
			if err := r.measure(w, run, *budget); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %s: %v\n", p.Name, w.Name, err)
				os.Exit(1)
			}
		} else if r.NA == "" {
			r.NA = "not written"
		}
		r.Peer, r.Version = p.Name, p.Version
		if err := out.Encode(r); err != nil {
			panic(err)
		}
	}
}

// measure takes samples until they took the budget together, the first apart,
// which warms up unless it takes longer than the budget.
func (r *Result) measure(w Workload, run func(dir string) (Sample, error), budget time.Duration) error {
	var sum usage
	for warm := false; sum.took < budget; warm = true {
		u, stored, err := sample(run)
		if err != nil {
			return err
		}
		if !warm && u.took < budget {
			continue
		}
		sum = usage{sum.took + u.took, sum.cpu + u.cpu, sum.allocs + u.allocs, sum.bytes + u.bytes}
		r.Stored = stored / w.Units
		r.Samples++
	}
	n := float64(r.Samples) * w.Units
	r.Ns, r.CPU, r.Allocs, r.Bytes = float64(sum.took)/n, float64(sum.cpu)/n, float64(sum.allocs)/n, float64(sum.bytes)/n
	return nil
}

// usage is what the process has used, or has used of it since.
type usage struct {
	took, cpu     time.Duration
	allocs, bytes uint64
}

var start = time.Now()

func used() usage {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return usage{time.Since(start), time.Duration(r.Utime.Nano() + r.Stime.Nano()), mem.Mallocs, mem.TotalAlloc}
}

// sample takes one, and the size of what it stored.
func sample(run func(dir string) (Sample, error)) (u usage, stored float64, err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return u, 0, err
	}
	defer os.RemoveAll(dir)
	s, err := run(dir)
	if err != nil {
		return u, 0, err
	}
	before := used()
	err = s.Do()
	after := used()
	u = usage{after.took - before.took, after.cpu - before.cpu, after.allocs - before.allocs, after.bytes - before.bytes}
	if s.Close != nil {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}
	if s.Stored != "" && err == nil {
		stored, err = size(filepath.Join(dir, s.Stored))
	}
	return u, stored, err
}

// size is that of a database and of what stands beside it.
func size(path string) (float64, error) {
	files, err := filepath.Glob(path + "*")
	if err != nil {
		return 0, err
	}
	var n float64
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return 0, err
		}
		n += float64(info.Size())
	}
	return n, nil
}

// ModuleVersion returns the version of a module that the program is built with.
func ModuleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
}
