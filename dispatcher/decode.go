package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/cenkalti/backoff/v4"

	"github.com/lockstep-pg/lockstep/store"
)

// decode gives a handler its typed job.
func decode[T any](ctx context.Context, job store.Job) (Job[T], error) {
	typed := Job[T]{Job: job, attempt: attemptOf(ctx)}
	err := json.Unmarshal(job.Payload, &typed.Payload)
	if err == nil {
		return typed, nil
	}
	err = fmt.Errorf("payload does not decode as %v: %s", reflect.TypeFor[T](), withoutValues(err))
	if typed.attempt.handler.DecodeRetry {
		return typed, err
	}
	return typed, backoff.Permanent(err)
}

// withoutValues says where decoding failed. The error's own text may quote the
// payload, which belongs in no log.
func withoutValues(err error) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		return fmt.Sprintf("field %q near byte %d does not fit Go type %v", kind.Field, kind.Offset, kind.Type)
	case errors.As(err, &syntax):
		return fmt.Sprintf("bad syntax near byte %d", syntax.Offset)
	default:
		return fmt.Sprintf("a %T from its UnmarshalJSON", err)
	}
}
