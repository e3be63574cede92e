package discovery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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

	path    string  // of the node that it was read from; "" if it was not read
	czxid   int64   // of that node: one that is made again at the path has another
	unknown []field // of its payload, that a T does not have
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
)

// wire is an instance in JSON, with the fields in the order in which Java writes them.
type wire struct {
	Name             string          `json:"name"`
	ID               string          `json:"id"`
	Address          *string         `json:"address"`
	Port             *uint16         `json:"port"`
	SSLPort          *uint16         `json:"sslPort"`
	Payload          json.RawMessage `json:"payload"`
	RegistrationTime int64           `json:"registrationTimeUTC"`
	Type             Type            `json:"serviceType"`
	URISpec          *URISpec        `json:"uriSpec"`
	Enabled          *bool           `json:"enabled,omitempty"`
}

// encode returns the JSON of an instance that has an ID, a Type, a RegistrationTime and possible ports, as Java's
// JsonInstanceSerializer writes it.
func encode[T any](i Instance[T], cfg config) ([]byte, error) {
	payload, err := i.encodePayload(cfg.class)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	w := wire{
		Name: i.Name, ID: i.ID, Address: orNull(i.Address), Port: orNull(uint16(i.Port)), SSLPort: orNull(uint16(i.SSLPort)),
		Payload: payload, RegistrationTime: i.RegistrationTime.UnixMilli(), Type: i.Type, URISpec: i.URISpec,
	}
	if enabled := !i.Disabled; cfg.enabledField {
		w.Enabled = &enabled
	}
	return marshal(w)
}

// orNull returns nil, which is null in JSON, instead of a pointer to a zero value.
func orNull[V comparable](v V) *V {
	if v == *new(V) {
		return nil
	}
	return &v
}

// decode reads the JSON of an instance. Unknown fields are ignored, and those that are missing or null stay as they are here.
func decode[T any](data []byte) (Instance[T], error) {
	var i Instance[T]
	var port, sslPort uint16
	enabled := true
	w := &wire{
		Address: &i.Address, Port: &port, SSLPort: &sslPort, Payload: json.RawMessage("null"), Type: Dynamic, Enabled: &enabled,
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return i, err
	}
	if w == nil {
		return i, errors.New("null is not an instance")
	}
	i.Name, i.ID, i.Type, i.URISpec = w.Name, w.ID, w.Type, w.URISpec
	i.Port, i.SSLPort, i.Disabled = int(port), int(sslPort), !enabled
	if w.RegistrationTime != 0 {
		i.RegistrationTime = time.UnixMilli(w.RegistrationTime).UTC()
	}
	if err := i.decodePayload(w.Payload); err != nil {
		return i, fmt.Errorf("payload: %w", err)
	}
	return i, nil
}

// encodePayload writes the class as Java's JSON library does: as the first field of an object, and in front of anything
// else. Fields that were in the node and are not known to T are kept.
func (i *Instance[T]) encodePayload(class string) (json.RawMessage, error) {
	data, err := marshal(i.Payload)
	if err != nil {
		return nil, err
	}
	switch data[0] {
	case '{':
		own, fields := fieldsOf(data)
		text, _ := marshal(cmp.Or(i.PayloadClass, own, class, defaultMap)) // every text can be written
		return objectOf(slices.Concat([]field{{classField, text}}, fields, without(i.unknown, fields))), nil
	case '[':
		class = cmp.Or(i.PayloadClass, class, defaultSlice)
	case 'n': // null
		class = ""
	default:
		class = i.PayloadClass // "" or, for a number, such as Java's long
	}
	if class == "" {
		return data, nil
	}
	return marshal([]any{class, data})
}

// decodePayload sets the payload, its class, and those of its fields that are unknown to T: a T that has read them does not write
// them.
func (i *Instance[T]) decodePayload(data json.RawMessage) error {
	class, fields := fieldsOf(data)
	value := data
	var pair []json.RawMessage
	switch {
	case data[0] == '{':
		value = objectOf(fields)
	case json.Unmarshal(data, &pair) == nil && len(pair) == 2 && json.Unmarshal(pair[0], &class) == nil && class != "":
		value = pair[1]
	}
	err := json.Unmarshal(value, &i.Payload)
	if err != nil && data[0] == '[' { // a list of a writer that puts no class in front
		class, err = "", json.Unmarshal(data, &i.Payload)
	}
	if err != nil {
		return err
	}
	again, _ := marshal(i.Payload) // a T that cannot be written is not written later, either
	_, known := fieldsOf(again)
	i.PayloadClass, i.unknown = class, without(fields, known)
	return nil
}

// field is a field of a JSON object.
type field struct {
	name  string
	value json.RawMessage
}

// fieldsOf returns the class of an object in valid JSON, and its other fields in their order, which a map does not keep. What is
// no object has neither.
func fieldsOf(data json.RawMessage) (class string, fields []field) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	start, _ := decoder.Token()
	for start == json.Delim('{') && decoder.More() {
		var f field
		name, _ := decoder.Token()
		f.name, _ = name.(string) // valid JSON has nothing else here
		_ = decoder.Decode(&f.value)
		if f.name == classField {
			_ = json.Unmarshal(f.value, &class) // what is not a text is no class
		} else {
			fields = append(fields, f)
		}
	}
	return class, fields
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
		name, _ := marshal(f.name)
		parts = append(parts, slices.Concat(name, []byte(":"), f.value))
	}
	return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}"))
}

// marshal is json.Marshal without the escapes for HTML, which Java does not write.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
