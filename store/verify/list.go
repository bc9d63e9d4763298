package verify

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxLine is the longest line of a list of ids that is read, in bytes.
const maxLine = 64 << 10

// LineError is a line of Config.IDs that is no job id.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error names the line and says what is wrong with it.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong with the line.
func (e *LineError) Unwrap() error { return e.Err }

// list reads ids, one a line.
type list struct {
	scanner *bufio.Scanner
	line    int
}

func newList(r io.Reader) *list {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	return &list{scanner: scanner}
}

// page reads up to n ids into the space of ids; none at the end.
func (l *list) page(ids []int64, n int) ([]int64, error) {
	ids = ids[:0]
	for len(ids) < n && l.scanner.Scan() {
		l.line++
		fields := bytes.Fields(bytes.TrimPrefix(l.scanner.Bytes(), []byte("\uFEFF")))
		if len(fields) == 0 {
			continue
		}
		id, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err != nil {
			return nil, &LineError{Line: l.line, Err: fmt.Errorf("%.40q is not a job id", fields[0])}
		}
		ids = append(ids, id)
	}
	err := l.scanner.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return nil, &LineError{Line: l.line + 1, Err: fmt.Errorf("longer than %d KiB", maxLine>>10)}
	}
	return ids, err
}
