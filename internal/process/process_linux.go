package process

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
)

// machineTag says which processes this one can see: those of the same boot of
// the same machine, in the same PID namespace.
func machineTag() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	h := fnv.New64a()
	h.Write(boot)
	h.Write([]byte(ns))
	return fmt.Sprintf("%x", h.Sum64())
}

// startOf returns when a process was started, in clock ticks since the boot. It
// reports false if there is no such process (any more).
func startOf(pid int) (start string, there bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", !errors.Is(err, os.ErrNotExist)
	}
	// The second field, the name, may hold anything but ends at the last ')'.
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return "", true
	}
	if fields[0] == "Z" || fields[0] == "X" { // it is dead and nobody has looked
		return "", false
	}
	return fields[19], true
}
