//go:build !linux

package faults

import (
	"fmt"
	"runtime"
)

func mount(string, int64) error { return fmt.Errorf("no small file systems on %s", runtime.GOOS) }

func unmount(dir string) error { return mount(dir, 0) }

func resize(dir string, bytes int64) error { return mount(dir, bytes) }

func shrink(dir string) error { return mount(dir, 0) }
