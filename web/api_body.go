package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lockstep-pg/lockstep/store"
)

// raw is the body of a request, as it came. huma would decode it twice, take
// keys that are spelled otherwise, and quote it in errors.
type raw struct{ bytes []byte }

// Resolve reads the body.
func (b *raw) Resolve(ctx huma.Context) []error {
	r, w := humago.Unwrap(ctx)
	if _, p := checkType(r, "application/json"); p != nil {
		return []error{p}
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	var err error
	if b.bytes, err = io.ReadAll(r.Body); err != nil {
		return []error{readProblem(err)}
	}
	return nil
}

// readProblem says why a body could not be read to its end.
func readProblem(err error) *bodyError {
	var long *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &long):
		return tooLong(long.Limit)
	case errors.As(err, &network) && network.Timeout():
		return &bodyError{http.StatusRequestTimeout, "body", "it did not come in time; send it faster, or in smaller parts"}
	default:
		return &bodyError{http.StatusBadRequest, "body", "it ended in the middle; send all of it"}
	}
}

// tooLong is the problem of a body of more than so many bytes.
func tooLong(most int64) *bodyError {
	return &bodyError{http.StatusRequestEntityTooLarge, "body", fmt.Sprintf("it is longer than %d bytes; send less, or only a reference to it", most)}
}

// bodyError is a problem of a body, as huma takes it from a resolver.
type bodyError struct {
	status            int
	location, message string
}

func (e *bodyError) Error() string  { return e.message }
func (e *bodyError) GetStatus() int { return e.status }
func (e *bodyError) ErrorDetail() *huma.ErrorDetail {
	return &huma.ErrorDetail{Location: e.location, Message: e.message}
}

// problem is the same outside a resolver.
func (e *bodyError) problem() *problem { return newProblem(e.status, e.location, e.message) }

// checkType tells which of these types a body is declared to be of, and refuses
// others: a form of another site can't declare that.
func checkType(r *http.Request, types ...string) (string, *bodyError) {
	given, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(types, given) {
		return "", &bodyError{http.StatusUnsupportedMediaType, "header.Content-Type", "it must be " + strings.Join(types, " or ")}
	}
	return given, nil
}

// object is a body that is a JSON object of exactly the fields of T.
type object[T any] struct {
	raw
	value T
}

// Resolve reads and decodes the body.
func (o *object[T]) Resolve(ctx huma.Context) []error {
	if errs := o.raw.Resolve(ctx); errs != nil {
		return errs
	}
	if err := decode(o.bytes, &o.value); err != nil {
		return []error{err}
	}
	return nil
}

// decode reads one JSON object into a struct. Unlike encoding/json it takes a key
// only in its exact spelling and only once, no text that it would have to mend,
// and nothing behind the object.
func decode(data []byte, into any) error {
	object := reflect.ValueOf(into).Elem()
	names := fieldNames(object.Type())
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return &bodyError{http.StatusBadRequest, "body", "it must be a JSON object"}
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return syntax(err)
		}
		key, _ := token.(string)
		place := slices.Index(names, key)
		switch {
		case place < 0:
			return &bodyError{http.StatusBadRequest, "body", fmt.Sprintf("it has an unknown field %.40q; there are %s", key, strings.Join(names, ", "))}
		case seen[key]:
			return &bodyError{http.StatusBadRequest, "body." + key, "it appears twice; give it once"}
		}
		seen[key] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return syntax(err)
		}
		if wrong := decodeValue(value, object.Field(place)); wrong != "" {
			return &bodyError{http.StatusUnprocessableEntity, "body." + key, key + " " + wrong}
		}
	}
	if _, err := decoder.Token(); err != nil {
		return syntax(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &bodyError{http.StatusBadRequest, "body", "something follows the JSON object; send nothing behind it"}
	}
	return nil
}

func syntax(err error) error {
	return &bodyError{http.StatusBadRequest, "body", "it is not valid JSON (" + err.Error() + "); correct it"}
}

// decodeValue reads a value into a field, and says what is wrong with it; "":
// nothing.
func decodeValue(value json.RawMessage, field reflect.Value) string {
	if wrong := store.MendedText(value); wrong != "" {
		return wrong
	}
	var kind *json.UnmarshalTypeError
	switch err := json.Unmarshal(value, field.Addr().Interface()); {
	case hasNull(value, field.Type()):
		return fmt.Sprintf("is or holds a null; it must be %s", jsonType(field.Type()))
	case errors.As(err, &kind):
		return fmt.Sprintf("is or holds a %.20s; it must be %s", kind.Value, jsonType(field.Type()))
	case err != nil: // a time is the only type here that reads itself
		return fmt.Sprintf("is %.40s; it must be %s", value, jsonType(field.Type()))
	}
	return ""
}

// hasNull tells whether a value is null, or a list with one, where a type has no
// place for it: encoding/json would leave a zero there.
func hasNull(value json.RawMessage, t reflect.Type) bool {
	var list []json.RawMessage
	if t.Kind() == reflect.Slice && json.Unmarshal(value, &list) == nil && list != nil {
		return slices.ContainsFunc(list, func(element json.RawMessage) bool { return hasNull(element, t.Elem()) })
	}
	return string(value) == "null" && !takesNull(t)
}

// takesNull tells whether a type has a place for null. A map has: no headers.
func takesNull(t reflect.Type) bool { return t.Kind() == reflect.Pointer || t.Kind() == reflect.Map }

// jsonType is what a type of Go is in JSON.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Slice:
		return "a list, each of it " + jsonType(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number of 64 bits"
	case reflect.Struct:
		return "a time as in 2030-01-31T12:00:00Z (RFC 3339)"
	default:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	}
}

// fieldNames are the keys that a struct has in JSON, by the places of its fields.
func fieldNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// notEmpty refuses texts that are given and empty, as the command line does:
// whoever gives one has lost a value on the way, and without it more is meant
// than was.
func notEmpty(fields map[string]*string) error {
	for field, text := range fields {
		if text != nil && *text == "" {
			return newProblem(http.StatusUnprocessableEntity, "body."+field, field+" "+store.EmptyText(field))
		}
	}
	return nil
}

// documentBody tells in the API's description that a route takes a T, of which an
// optional field may be null if its type has a place for that.
func documentBody[T any](a *API, path string, types ...string) {
	registry := a.huma.OpenAPI().Components.Schemas
	schema := registry.Schema(reflect.TypeFor[T](), true, "")
	body := registry.SchemaFromRef(schema.Ref)
	for i, name := range fieldNames(reflect.TypeFor[T]()) {
		field, described := reflect.TypeFor[T]().Field(i).Type, body.Properties[name]
		if takesNull(field) && !slices.Contains(body.Required, name) && !described.Nullable {
			described.Nullable = true
			if described.Enum != nil {
				described.Enum = append(described.Enum, nil)
			}
		}
	}
	content := map[string]*huma.MediaType{}
	for _, name := range types {
		content[name] = &huma.MediaType{Schema: schema}
	}
	a.huma.OpenAPI().Paths[path].Post.RequestBody = &huma.RequestBody{Required: true, Content: content}
}
