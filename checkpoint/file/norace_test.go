//go:build !race

package file

const racing = false
