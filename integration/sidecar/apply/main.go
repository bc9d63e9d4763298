// Command apply applies the change on its standard input to a folder that has a
// file for each path: the program of a test. It fails if the file does not have
// the content that comes before.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := apply(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func apply(dir string) error {
	var c struct {
		Path string
		Prev *string // content before; nil: the file was not there
		Blob *string // content after; nil: it is gone
	}
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return err
	}
	file := filepath.Join(dir, strings.NewReplacer("%", "%25", "/", "%2F").Replace(c.Path))
	blob, err := os.ReadFile(file)
	if there := err == nil; there != (c.Prev != nil) || there && string(blob) != *c.Prev {
		return fmt.Errorf("%s had %q", c.Path, blob)
	}
	if c.Blob == nil {
		return os.Remove(file)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(*c.Blob), 0o600)
}
