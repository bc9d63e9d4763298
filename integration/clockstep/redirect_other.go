//go:build !(linux && amd64)

package clockstep

import (
	"fmt"
	"runtime"
)

func redirect() (offset, error) {
	return nil, fmt.Errorf("%w: not written for %s/%s", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}
