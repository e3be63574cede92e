package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The types of this file read JSON scalars as Java's JSON library (Jackson) does, which converts
// between texts, numbers and booleans. testdata/jackson.txt has what Java's JsonInstanceSerializer
// reads.

// text is a JSON string. A number or a boolean is read as it is spelled.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '"':
		return json.Unmarshal(data, (*string)(t))
	case '{', '[':
		return fmt.Errorf("%s is not a string", data)
	case 'n': // null
	default:
		*t = text(data)
	}
	return nil
}

// whole is a whole number. A fraction is cut off, a string may have spaces around it, and an empty
// string is 0.
type whole int64

func (w *whole) UnmarshalJSON(data []byte) error {
	var err error
	var n int64
	switch {
	case data[0] == '"':
		var s text
		if err = s.UnmarshalJSON(data); err == nil {
			if digits := strings.TrimSpace(string(s)); digits != "" && digits != "null" {
				n, err = strconv.ParseInt(digits, 10, 64)
			}
		}
	case bytes.ContainsAny(data, ".eE") && data[0] != 't' && data[0] != 'f':
		// A number with a fraction or an exponent.
		var f float64
		f, err = strconv.ParseFloat(string(data), 64)
		if n = int64(f); math.Abs(f) >= 1<<63 {
			err = strconv.ErrRange
		}
	case string(data) != "null":
		n, err = strconv.ParseInt(string(data), 10, 64)
	}
	if err != nil {
		return fmt.Errorf("%s is not an integer", data)
	}
	*w = whole(n)
	return nil
}

// port returns the port, or 0 if the number cannot be one.
func (w whole) port() (int, error) {
	if w < math.MinInt32 || w > math.MaxInt32 {
		return 0, fmt.Errorf("invalid port %d", w) // Java cannot read it either
	}
	if w != whole(uint16(w)) {
		return 0, nil
	}
	return int(w), nil
}

// flag is a boolean. Every whole number but 0 is true; null and an empty text are false.
type flag bool

func (f *flag) UnmarshalJSON(data []byte) error {
	var s text
	if err := s.UnmarshalJSON(data); err != nil {
		return err
	}
	switch s := strings.TrimSpace(string(s)); s {
	case "true", "True", "TRUE":
		*f = true
	case "false", "False", "FALSE", "", "null":
		*f = false
	default:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || data[0] == '"' {
			return fmt.Errorf("%s is not a boolean", data)
		}
		*f = n != 0
	}
	return nil
}

// kind is the type of an instance: its name, or its place in Java's enumeration.
type kind Type

func (k *kind) UnmarshalJSON(data []byte) error {
	var s text
	if err := s.UnmarshalJSON(data); err != nil {
		return err
	}
	name := strings.TrimSpace(string(s))
	n, err := strconv.ParseUint(name, 10, 8)
	switch {
	case err == nil && n < uint64(len(types)):
		name = string(types[n])
	case err == nil || data[0] != '"' && data[0] != 'n': // no place in the enumeration
		return fmt.Errorf("unknown instance type %s", data)
	}
	if name != "" {
		*k = kind(name)
	}
	return nil
}

// types lists the types in the order of Java's enumeration.
var types = []Type{Dynamic, Static, Permanent, DynamicSequential}

// spec is a [URISpec], or its pattern.
type spec struct{ *URISpec }

func (s *spec) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	if data[0] == '"' {
		var pattern text
		err := pattern.UnmarshalJSON(data)
		if err == nil {
			s.URISpec, err = ParseURISpec(string(pattern))
		}
		return err
	}
	var read struct {
		Parts []struct {
			Value    text `json:"value"`
			Variable flag `json:"variable"`
		} `json:"parts"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	s.URISpec = &URISpec{}
	for _, p := range read.Parts {
		s.Parts = append(s.Parts, URIPart{Value: string(p.Value), Variable: bool(p.Variable)})
	}
	return nil
}

// byteOrderMark is what some programs write in front of UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// unmarshal reads the first JSON value of data. Whatever follows it is ignored. Numbers in values
// of type any keep all their digits, as a json.Number.
func unmarshal(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte(byteOrderMark))))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// unmarshalPayload reads a payload into p. Java knows that the metadata of Spring Cloud and Dubbo
// are strings, and converts numbers and booleans there. If p cannot be read without that,
// unmarshalPayload does the same.
func unmarshalPayload(data json.RawMessage, p any) error {
	err := unmarshal(data, p)
	mismatch := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &mismatch) {
		return err
	}
	var object, metadata map[string]json.RawMessage
	_ = json.Unmarshal(data, &object) // without metadata nothing is converted
	_ = json.Unmarshal(object["metadata"], &metadata)
	if metadata == nil {
		return err
	}
	asText := func(m map[string]json.RawMessage, names ...string) {
		for _, name := range names {
			var s *text
			if json.Unmarshal(m[name], &s) == nil && s != nil {
				m[name], _ = marshal(*s)
			}
		}
	}
	asText(object, "id", "name")
	asText(metadata, slices.Collect(maps.Keys(metadata))...)
	object["metadata"], _ = marshal(metadata)
	converted, _ := marshal(object)
	return unmarshal(converted, p)
}
