// Package arch holds the test that keeps the packages' imports pointing one way.
package arch
