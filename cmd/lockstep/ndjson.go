package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/lockstep-pg/lockstep/store"
)

// maxLine is the longest line that is read, in bytes.
const maxLine = 64 << 20

// lineError is a line that holds no good job.
type lineError struct {
	number int // from 1
	err    error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.number, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// lineReader reads jobs in parts, from lines of JSON (https://jsonlines.org).
type lineReader struct {
	scanner *bufio.Scanner
	number  int // of the last line read, from 1
}

func newLineReader(r io.Reader) *lineReader {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	return &lineReader{scanner: scanner}
}

// linePart is a number of jobs and the lines they stand on.
type linePart struct {
	jobs  []store.NewJob
	lines []int
}

// part reads the next part; it is empty at the end. Blank lines are skipped.
func (r *lineReader) part() (linePart, error) {
	var part linePart
	for size := 0; len(part.jobs) < partLines && size < partBytes; {
		line, err := r.next()
		if err != nil || line == nil {
			return part, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		job, err := store.ParseJob(line)
		if err != nil {
			return part, &lineError{r.number, err}
		}
		part.jobs, part.lines = append(part.jobs, job), append(part.lines, r.number)
		size += len(line)
	}
	return part, nil
}

// next returns the next line, valid until the call after; nil at the end.
func (r *lineReader) next() ([]byte, error) {
	if r.scanner.Scan() {
		r.number++
		line := r.scanner.Bytes()
		if r.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		return line[:len(line):len(line)], nil
	}
	err := r.scanner.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return nil, &lineError{r.number + 1, fmt.Errorf("longer than %d MiB", maxLine>>20)}
	}
	return nil, err
}
