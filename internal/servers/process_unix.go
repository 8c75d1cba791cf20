//go:build unix

package servers

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// serverUser is who runs the server when we are root, which PostgreSQL refuses to
// be run by. It returns false when we are not.
func serverUser() (uid, gid int, ok bool) {
	if os.Getuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err = strconv.Atoi(u.Uid)
		if err != nil {
			continue
		}
		if gid, err = strconv.Atoi(u.Gid); err == nil {
			return uid, gid, true
		}
	}
	return 0, 0, false
}

func asServer() *syscall.SysProcAttr {
	// A process group of its own: an interrupt at the terminal is for us alone.
	attr := &syscall.SysProcAttr{Setpgid: true}
	if uid, gid, ok := serverUser(); ok {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return attr
}

// give hands a file or directory to whoever runs the server.
func give(path string) error {
	uid, gid, ok := serverUser()
	if !ok {
		return nil
	}
	if err := os.Chown(path, uid, gid); err != nil {
		return fmt.Errorf("handing %s to the server's user: %w", path, err)
	}
	return nil
}

func interrupt(pid int) { _ = syscall.Kill(pid, syscall.SIGINT) }
func suspend(pid int)   { _ = syscall.Kill(pid, syscall.SIGSTOP) }
func kill(pid int)      { _ = syscall.Kill(pid, syscall.SIGKILL) }
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	// Nobody may have asked for its exit code yet.
	return !zombie(pid)
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	for i := len(b) - 1; i > 0; i-- {
		if b[i] == ')' {
			return i+2 < len(b) && b[i+2] == 'Z'
		}
	}
	return false
}
