package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// items are the jobs of a batch, read one by one.
type items interface {
	// next returns the next item, valid until the call after; nil at the end.
	next() ([]byte, error)
	// count is how many have been returned.
	count() int
}

// newItems reads a body of a type; no item is longer than most.
func newItems(body io.Reader, kind string, most int64) items {
	if kind == "application/json" {
		ration := &rationed{from: body, most: most, left: most}
		return &array{ration: ration, decoder: json.NewDecoder(ration)}
	}
	scanner := bufio.NewScanner(body)
	scanner.Buffer(nil, int(most))
	return &lines{scanner: scanner, most: most}
}

// lines are the items of NDJSON. Blank ones are none.
type lines struct {
	scanner *bufio.Scanner
	most    int64
	n       int
}

func (l *lines) count() int { return l.n }

func (l *lines) next() ([]byte, error) {
	for l.scanner.Scan() {
		if line := bytes.Trim(l.scanner.Bytes(), " \t\r"); len(line) > 0 {
			l.n++
			return bytes.Clone(line), nil // the payload is kept
		}
	}
	err := l.scanner.Err()
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, bufio.ErrTooLong):
		return nil, itemTooLong(l.n+1, l.most)
	default:
		return nil, readProblem(err)
	}
}

func itemTooLong(place int, most int64) error {
	return &bodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("item %d", place), fmt.Sprintf("item %d is longer than %d bytes; send less, or only a reference to it", place, most)}
}

// array is a JSON array of items.
type array struct {
	ration  *rationed
	decoder *json.Decoder
	begun   bool
	ended   bool
	n       int
}

func (a *array) count() int { return a.n }

func (a *array) next() ([]byte, error) {
	if !a.begun {
		if start, err := a.decoder.Token(); err != nil || start != json.Delim('[') {
			return nil, &bodyError{http.StatusBadRequest, "body", "it must be a JSON array of jobs"}
		}
		a.begun = true
	}
	a.ration.renew()
	switch {
	case a.ended:
		return nil, nil
	case !a.decoder.More():
		return nil, a.end()
	}
	var item json.RawMessage
	if err := a.decoder.Decode(&item); err != nil {
		return nil, a.problem(err)
	}
	a.n++
	return item, nil
}

// end reads the bracket that ends the array, behind which nothing may follow.
func (a *array) end() error {
	if _, err := a.decoder.Token(); err != nil {
		return a.problem(err)
	}
	a.ended = true
	if _, err := a.decoder.Token(); !errors.Is(err, io.EOF) {
		return &bodyError{http.StatusBadRequest, "body", "something follows the JSON array; send nothing behind it"}
	}
	return nil
}

func (a *array) problem(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, errRation):
		return itemTooLong(a.n+1, a.ration.most)
	case errors.As(err, &syntax):
		return &bodyError{http.StatusBadRequest, fmt.Sprintf("item %d", a.n+1), fmt.Sprintf("item %d is not valid JSON (%v); correct it", a.n+1, err)}
	default:
		return readProblem(err)
	}
}

// rationed is a reader that gives no more than so much for each item.
type rationed struct {
	from       io.Reader
	most, left int64
}

var errRation = errors.New("the item is too long")

func (r *rationed) renew() { r.left = r.most }

func (r *rationed) Read(into []byte) (int, error) {
	if r.left <= 0 {
		return 0, errRation
	}
	n, err := r.from.Read(into[:min(int64(len(into)), r.left)])
	r.left -= int64(n)
	return n, err
}
