package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// ValueError is a setting that can't be used.
type ValueError struct {
	Where string // "lockstep.yaml:12", a flag or a variable; "" where it was left out
	Path  string // "push[0].url"
	Err   error
}

// Error names the place, the setting and what is wrong with it.
func (e *ValueError) Error() string {
	text := e.Err.Error()
	if e.Path != "" {
		text = e.Path + ": " + text
	}
	if e.Where != "" {
		text = e.Where + ": " + text
	}
	return text
}

// Unwrap is what is wrong.
func (e *ValueError) Unwrap() error { return e.Err }

// Where names the place at which a setting was given; "" where it was left out.
func (s *Settings) Where(path string) string { return s.origin[path] }

// bad is the error of a setting, with the place it was given at: its own, or
// that of what it is part of.
func (s *Settings) bad(path string, err error) error {
	// What a part refuses begins with the name of its field.
	if field, _, ok := strings.Cut(err.Error(), ": "); ok && s.origin[path+"."+field] != "" {
		return &ValueError{Where: s.origin[path+"."+field], Path: path, Err: err}
	}
	for at := path; at != ""; at = parent(at) {
		if where := s.origin[at]; where != "" {
			return &ValueError{Where: where, Path: path, Err: err}
		}
	}
	return &ValueError{Path: path, Err: err}
}

// parent is the path of what a value is part of.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// Given is a setting given by flag or variable.
type Given struct {
	Path  string // of the setting
	Where string // what names it
	Set   func(*Settings)
}

// Load reads a file of settings, lays what was given otherwise over it, and
// fills in the defaults. "" is no file.
func Load(file string, given []Given) (*Settings, error) {
	s := &Settings{origin: make(map[string]string)}
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, &ValueError{Where: "--config", Err: err}
		}
		if err := s.parse(file, content); err != nil {
			return nil, err
		}
	}
	for _, g := range given {
		g.Set(s)
		s.origin[g.Path] = g.Where
	}
	if err := s.checkZeros(); err != nil {
		return nil, err
	}
	s.complete()
	return s, s.validate()
}

// parse reads YAML and notes where each value stands.
func (s *Settings) parse(file string, content []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(s); err != nil && !errors.Is(err, io.EOF) {
		return fileError(file, err)
	}
	if err := decoder.Decode(new(Settings)); !errors.Is(err, io.EOF) {
		return &ValueError{Where: file, Err: errors.New("there is a second document (---) in it")}
	}
	var root yaml.Node
	if err := yaml.Unmarshal(content, &root); err != nil {
		return fileError(file, err)
	}
	s.locate(file, "", &root)
	return nil
}

// locate notes the lines of a node and of all below it.
func (s *Settings) locate(file, path string, node *yaml.Node) {
	if path != "" {
		s.origin[path] = file + ":" + strconv.Itoa(node.Line)
	}
	switch node.Kind {
	case yaml.DocumentNode:
		s.locate(file, path, node.Content[0])
	case yaml.SequenceNode:
		for i, child := range node.Content {
			s.locate(file, path+"["+strconv.Itoa(i)+"]", child)
		}
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			s.locate(file, strings.TrimPrefix(path+"."+node.Content[i].Value, "."), node.Content[i+1])
		}
	}
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (.+) not found in type `)
	wrongType    = regexp.MustCompile(`^line (\d+): cannot unmarshal (!!\S+)(?: .*)? into (\S+)$`)
	repeatedKey  = regexp.MustCompile(`^line (\d+): mapping key (.+) already defined at line (\d+)$`)
	anyLine      = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
)

// fileError tells what is wrong with a file, in its own words: the parser's
// quote values, among which may be secrets.
func fileError(file string, err error) error {
	var lines *yaml.TypeError
	var value *ValueError
	text := err.Error()
	switch {
	case errors.As(err, &value):
		value.Where = file + ":" + value.Where
		return value
	case errors.As(err, &lines):
		text = lines.Errors[0]
	}
	if m := unknownField.FindStringSubmatch(text); m != nil {
		return &ValueError{Where: file + ":" + m[1], Err: fmt.Errorf("unknown setting %q; lockstep config example shows all", m[2])}
	}
	if m := repeatedKey.FindStringSubmatch(text); m != nil {
		return &ValueError{Where: file + ":" + m[1], Err: fmt.Errorf("%s is there already, in line %s", m[2], m[3])}
	}
	if m := wrongType.FindStringSubmatch(text); m != nil {
		return &ValueError{Where: file + ":" + m[1], Err: fmt.Errorf("this is %s, which can't stand here", yamlName(m[2]))}
	}
	if m := anyLine.FindStringSubmatch(text); m != nil {
		return &ValueError{Where: file + ":" + m[1], Err: errors.New("not YAML: " + m[2])}
	}
	return &ValueError{Where: file, Err: errors.New("not YAML")}
}

// yamlName is what a YAML tag means.
func yamlName(tag string) string {
	switch tag {
	case "!!map":
		return "a mapping"
	case "!!seq":
		return "a list"
	case "!!int", "!!float":
		return "a number"
	case "!!null":
		return "empty"
	default:
		return "text"
	}
}

// UnmarshalYAML reads a span of time; a bare number has no unit.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	span, err := time.ParseDuration(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil {
		return &ValueError{Where: strconv.Itoa(node.Line), Err: fmt.Errorf("%q is not a span of time like 30s or 1h30m", node.Value)}
	}
	*d = Duration(span)
	return nil
}

// UnmarshalText reads a flag's or a variable's value.
func (d *Duration) UnmarshalText(text []byte) error {
	span, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a span of time like 30s or 1h30m", text)
	}
	*d = Duration(span)
	return nil
}
