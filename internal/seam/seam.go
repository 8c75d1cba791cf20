// Package seam is where package fleet gets at what package graph does not export.
package seam

// Graph is graph's side. It is set when that package is initialized and never after; fleet
// says which methods it has.
var Graph any
