package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// PostgreSQL's numeric holds at most this many digits before and after the
// decimal point (its documentation, "Numeric Types").
const (
	maxDigitsBefore = 131072
	maxDigitsAfter  = 16383
)

// numberProblem says which number in valid JSON is beyond numeric, or "".
func numberProblem(data []byte) string {
	if !bytes.ContainsAny(data, "eE") && len(data) < maxDigitsAfter {
		return "" // no exponent and too short to hold a number that large
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return ""
		}
		if n, ok := token.(json.Number); ok && !fitsNumeric(n.String()) {
			return fmt.Sprintf("holds a number near byte %d that is beyond PostgreSQL's numeric (%d digits before the point, %d after)",
				dec.InputOffset(), maxDigitsBefore, maxDigitsAfter)
		}
	}
}

// maxExponent is where the server's own reading of a number ends, whatever its
// digits are.
const maxExponent = math.MaxInt32 / 2

func fitsNumeric(n string) bool {
	mantissa, exponent := strings.TrimPrefix(n, "-"), 0
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		e, err := strconv.Atoi(mantissa[i+1:])
		if err != nil || e <= -maxExponent || e >= maxExponent {
			return false
		}
		mantissa, exponent = mantissa[:i], e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	before := len(digits) - len(fraction) + exponent
	return (digits == "" || before <= maxDigitsBefore) && len(fraction)-exponent <= maxDigitsAfter
}
