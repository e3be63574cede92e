package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Instance is one running copy of a service. It is Curator's ServiceInstance.
type Instance[T any] struct {
	Name    string // of the service
	ID      string // of the instance; Register makes one if it is empty
	Address string // host name or IP address
	Port    int    // 0 is none, which is null in JSON
	SSLPort int    // 0 is none
	Payload T

	// PayloadClass is the Java class of the payload, "@class" in JSON. It is set when an instance is read. If it is empty
	// when one is written, it is that of [WithJavaClass].
	PayloadClass string

	RegistrationTime time.Time // Register sets it if it is zero
	Type             Type      // "" is Dynamic
	URISpec          *URISpec  // how to make a URI of it; nil is none

	// Disabled keeps [Watch.Pick] from choosing the instance. Other processes see it only if it is written
	// [WithEnabledField]. Java calls the opposite enabled.
	Disabled bool

	origin origin
}

// origin is the node that an instance was read from; zero if it was not read.
type origin struct {
	nodeKey
	mzxid   int64
	unknown []field // of the payload, that a T does not have
}

// nodeKey names a node: one that is made again at the same path has another czxid.
type nodeKey struct {
	path  string
	czxid int64
}

// Type says what node an instance has, and how long it stays.
type Type string

// The types of instances, and their nodes.
const (
	Dynamic           Type = "DYNAMIC"            // ephemeral
	Static            Type = "STATIC"             // persistent, and deleted by Close
	Permanent         Type = "PERMANENT"          // persistent, and not deleted by Close
	DynamicSequential Type = "DYNAMIC_SEQUENTIAL" // ephemeral, with a number behind the id
)

// String describes the instance for logs, without the payload.
func (i Instance[T]) String() string {
	return fmt.Sprintf("%s/%s at %s port %d", i.Name, i.ID, i.Address, i.Port)
}

const (
	classField   = "@class"
	defaultMap   = "java.util.LinkedHashMap" // what Java writes for a Map
	defaultSlice = "java.util.ArrayList"     // what Java writes for a List
	largestPort  = 1<<16 - 1
)

// wire is an instance in JSON, with the fields in the order in which Java writes them.
type wire struct {
	Name             *string         `json:"name"`
	ID               *string         `json:"id"`
	Address          *string         `json:"address"`
	Port             *int            `json:"port"`
	SSLPort          *int            `json:"sslPort"`
	Payload          json.RawMessage `json:"payload"`
	RegistrationTime int64           `json:"registrationTimeUTC"`
	Type             *Type           `json:"serviceType"`
	URISpec          *URISpec        `json:"uriSpec"`
	Enabled          *bool           `json:"enabled,omitempty"`
}

// encode returns the JSON of an instance, as Java's JsonInstanceSerializer writes it.
func encode[T any](i Instance[T], cfg config) ([]byte, error) {
	payload, err := encodePayload(i, cfg.class)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	w := wire{
		Name: orNull(i.Name), ID: orNull(i.ID), Address: orNull(i.Address), Port: orNull(i.Port), SSLPort: orNull(i.SSLPort),
		Payload: payload, Type: &i.Type, URISpec: i.URISpec,
	}
	if i.Type == "" {
		dynamic := Dynamic
		w.Type = &dynamic
	}
	if !i.RegistrationTime.IsZero() {
		w.RegistrationTime = i.RegistrationTime.UnixMilli()
	}
	if cfg.enabledField {
		enabled := !i.Disabled
		w.Enabled = &enabled
	}
	return marshal(w)
}

// decode reads the JSON of an instance. Missing fields are zero, and unknown ones are ignored.
func decode[T any](data []byte) (Instance[T], error) {
	var w *wire
	if err := json.Unmarshal(data, &w); err != nil {
		return Instance[T]{}, err
	}
	if w == nil {
		return Instance[T]{}, errors.New("null is not an instance")
	}
	i := Instance[T]{
		Name: orZero(w.Name), ID: orZero(w.ID), Address: orZero(w.Address), Port: orZero(w.Port), SSLPort: orZero(w.SSLPort),
		Type: orZero(w.Type), URISpec: w.URISpec, Disabled: w.Enabled != nil && !*w.Enabled,
	}
	if i.Type == "" {
		i.Type = Dynamic
	}
	if w.RegistrationTime != 0 {
		i.RegistrationTime = time.UnixMilli(w.RegistrationTime).UTC()
	}
	if err := checkPorts(i.Port, i.SSLPort); err != nil {
		return Instance[T]{}, err
	}
	if err := decodePayload(w.Payload, &i); err != nil {
		return Instance[T]{}, fmt.Errorf("payload: %w", err)
	}
	return i, nil
}

func checkPorts(ports ...int) error {
	for _, port := range ports {
		if port < 0 || port > largestPort {
			return fmt.Errorf("port %d", port)
		}
	}
	return nil
}

// encodePayload writes the class as Java's JSON library does: as the first field of an object, and in front of a list.
// Fields that were in the node and are not known to T are kept.
func encodePayload[T any](i Instance[T], class string) (json.RawMessage, error) {
	data, err := marshal(i.Payload)
	if err != nil {
		return nil, err
	}
	if i.PayloadClass != "" {
		class = i.PayloadClass
	}
	switch data[0] {
	case '{':
		if class == "" && reflect.ValueOf(i.Payload).Kind() == reflect.Map {
			class = defaultMap
		}
		fields := fieldsOf(data)
		fields = append(fields, without(i.origin.unknown, fields)...)
		if class != "" { // it is the only one
			first := []field{{classField, quoted(class)}}
			fields = append(first, without(fields, first)...)
		}
		return objectOf(fields), nil
	case '[':
		if class == "" {
			class = defaultSlice
		}
		return marshal([]any{class, json.RawMessage(data)})
	case 'n': // null
		return data, nil
	}
	if i.PayloadClass != "" { // a number with a class, as Java's long
		return marshal([]any{class, json.RawMessage(data)})
	}
	return data, nil
}

// decodePayload sets the payload of i and its class.
func decodePayload[T any](data json.RawMessage, i *Instance[T]) error {
	if len(data) == 0 {
		return nil
	}
	class, value, fields := classOf(data)
	err := json.Unmarshal(value, &i.Payload)
	if err != nil && data[0] == '[' { // a list of a writer that puts no class in front
		var zero T
		class, i.Payload = "", zero
		err = json.Unmarshal(data, &i.Payload)
	}
	i.PayloadClass = class
	// A field is unknown to T if a T that has read it does not write it.
	if again, failed := marshal(i.Payload); err == nil && failed == nil {
		i.origin.unknown = without(fields, fieldsOf(again))
	}
	return err
}

// classOf returns the class of a payload, the payload without it, and the fields of that if it is an object.
func classOf(data json.RawMessage) (class string, value json.RawMessage, fields []field) {
	switch data[0] {
	case '{':
		fields = fieldsOf(data)
		isClass := func(f field) bool { return f.name == classField }
		at := slices.IndexFunc(fields, isClass)
		if at < 0 || json.Unmarshal(fields[at].value, &class) != nil {
			return "", data, fields
		}
		fields = slices.DeleteFunc(fields, isClass)
		return class, objectOf(fields), fields
	case '[':
		var pair []json.RawMessage
		if json.Unmarshal(data, &pair) == nil && len(pair) == 2 && json.Unmarshal(pair[0], &class) == nil && class != "" {
			return class, pair[1], nil
		}
	}
	return "", data, nil
}

// field is a field of a JSON object.
type field struct {
	name  string
	value json.RawMessage
}

// without returns the fields whose names are not among those of others. Like encoding/json it takes a name in any case.
func without(fields, others []field) (rest []field) {
	for _, f := range fields {
		if !slices.ContainsFunc(others, func(o field) bool { return strings.EqualFold(o.name, f.name) }) {
			rest = append(rest, f)
		}
	}
	return rest
}

// objectOf returns the JSON object with these fields.
func objectOf(fields []field) json.RawMessage {
	var parts [][]byte
	for _, f := range fields {
		parts = append(parts, slices.Concat(quoted(f.name), []byte(":"), f.value))
	}
	return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}"))
}

// fieldsOf returns the fields of valid JSON in their order, which a map does not keep. What is no object has none.
func fieldsOf(data []byte) (fields []field) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, _ := decoder.Token(); start != json.Delim('{') {
		return nil
	}
	for decoder.More() {
		var f field
		name, _ := decoder.Token()
		f.name, _ = name.(string) // valid JSON has nothing else here
		if decoder.Decode(&f.value) != nil {
			return nil // it is not valid
		}
		fields = append(fields, f)
	}
	return fields
}

// quoted is a text in JSON.
func quoted(text string) json.RawMessage {
	data, _ := marshal(text) // every text can be written
	return data
}

// marshal is json.Marshal without the escapes for HTML, which Java does not write.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// orNull is nil for what is written as null.
func orNull[V comparable](v V) *V {
	var zero V
	if v == zero {
		return nil
	}
	return &v
}

func orZero[V any](v *V) (value V) {
	if v != nil {
		value = *v
	}
	return value
}
