// Package sidecar runs the built program beside apps of its own, as their
// operator would: pushes in order through kills of either side, its life cycle,
// drains, and the examples of the documentation.
package sidecar
