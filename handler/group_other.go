//go:build !unix

package handler

import "os/exec"

// There are no process groups to signal here: the command alone is ended.
func inGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}
