//go:build !unix

package servers

import (
	"os"
	"syscall"
)

func asServer() *syscall.SysProcAttr { return nil }
func give(string) error              { return nil }

func interrupt(pid int) { kill(pid) }
func suspend(int)       {}
func alive(int) bool    { return false }

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
