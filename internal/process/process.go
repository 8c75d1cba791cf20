// Package process names processes, so that others can tell whether one still
// lives.
package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Self names this process, for people and for [Gone]:
//
//	pid <pid> on <host> <machine>.<start of the process>
var Self = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "?"
	}
	start, _ := startOf(os.Getpid())
	return fmt.Sprintf("pid %d on %s %s.%s", os.Getpid(), strings.ReplaceAll(host, " ", "_"), machine(), start)
})

var machine = sync.OnceValue(machineTag)

// Gone reports whether a process has certainly ended. It can tell for processes
// of this machine, on Linux; of others it reports false.
func Gone(name string) bool {
	f := strings.Fields(name)
	if len(f) != 5 || f[0] != "pid" || f[2] != "on" {
		return false
	}
	tag, start, _ := strings.Cut(f[4], ".")
	pid, err := strconv.Atoi(f[1])
	if err != nil || tag == "" || tag != machine() {
		return false
	}
	now, there := startOf(pid)
	return !there || now != "" && start != "" && now != start
}
