package discovery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
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
	// when one is written whose payload is an object or a list, it is that of [WithJavaClass].
	PayloadClass string

	RegistrationTime time.Time // Register sets it if it is zero
	Type             Type      // "" is Dynamic
	URISpec          *URISpec  // how to make a URI of it; nil is none

	// Disabled keeps [Watch.Pick] from choosing the instance. To write it takes [WithEnabledField]; without, it is a
	// framework.ErrBadArgument. Java calls the opposite enabled. An instance of Spring Cloud is also disabled when it is read with
	// an "instance_status" in its metadata that is not "UP": Spring calls it no more. Then "enabled" stays true when it is written
	// again, and whoever changes the status changes Disabled as well.
	Disabled bool

	path    string // of the node that it was read from; "" if it was not read
	czxid   int64  // of that node: one that is made again at the path has another
	unknown fields // of its payload, that a T does not have; nil: none
}

// Type says what node an instance has, and how long it stays.
type Type string

// The types of instances, and their nodes.
const (
	Dynamic           Type = "DYNAMIC"            // ephemeral
	Static            Type = "STATIC"             // persistent, and deleted by Close
	Permanent         Type = "PERMANENT"          // persistent, and kept by nobody: see [Discovery.Write]
	DynamicSequential Type = "DYNAMIC_SEQUENTIAL" // ephemeral, with a number behind the id
)

// String describes the instance for logs, without the payload.
func (i Instance[T]) String() string {
	return fmt.Sprintf("%s/%s at %s port %d", i.Name, i.ID, i.Address, i.Port)
}

// Path is the path of the node that the instance was read from, and "" if it was not read.
func (i Instance[T]) Path() string { return i.path }

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
	if w.URISpec != nil && w.URISpec.Parts == nil { // Java's ServiceProvider would fail for all instances of the service
		w.URISpec = &URISpec{Parts: []URIPart{}}
	}
	switch enabled := !i.Disabled || outOfService(i.PayloadClass, payload); { // what the status says is said once
	case cfg.enabledField:
		w.Enabled = &enabled
	case !enabled:
		return nil, errors.New("a disabled instance needs WithEnabledField")
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

var errUnreadable = errors.New("no instance that we can read")

// decode reads the instance of a node. Unknown fields are ignored, and those that are missing or null stay as they are here; a missing
// name is that of the service, and a missing id that in the path. Without data there is no instance, and it returns nil: the node is the
// parent of a service whose name has a slash.
func decode[T any](name, path string, data []byte, stat *zk.Stat) (_ *Instance[T], err error) {
	defer func() {
		if p := recover(); p != nil { // of a method of T
			err = fmt.Errorf("%w: panic: %v", errUnreadable, p)
		}
	}()
	if len(data) == 0 {
		return nil, nil
	}
	i := &Instance[T]{path: path, czxid: stat.Czxid}
	var port, sslPort uint16
	enabled := true
	w := &wire{
		Address: &i.Address, Port: &port, SSLPort: &sslPort, Payload: json.RawMessage("null"), Type: Dynamic, Enabled: &enabled,
	}
	err = json.Unmarshal(data, &w)
	if err == nil && w == nil {
		err = errors.New("null is not an instance")
	}
	if err == nil {
		err = i.decodePayload(w.Payload)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if _, i.ID = framework.Split(path); w.ID != "" && w.ID != i.ID { // the same text is kept once
		i.ID = w.ID
	}
	i.Name, i.Type, i.URISpec = intern(cmp.Or(w.Name, name)), intern(w.Type), w.URISpec
	i.Port, i.SSLPort, i.Disabled = int(port), int(sslPort), !enabled || outOfService(i.PayloadClass, w.Payload)
	if w.RegistrationTime != 0 {
		i.RegistrationTime = time.UnixMilli(w.RegistrationTime).UTC()
	}
	return i, nil
}

// intern returns a text that equal ones share: all instances of a service have it.
func intern[S ~string](s S) S { return unique.Make(s).Value() }

// encodePayload writes the class as Java's JSON library does: as the first field of an object, and in front of anything else. Fields that
// were in the node and are not known to T come last.
func (i *Instance[T]) encodePayload(class string) (json.RawMessage, error) {
	data, err := marshal(i.Payload)
	if err != nil {
		return nil, err
	}
	switch data[0] {
	case '{':
		own, rest, known := cutClass(data)
		object, _ := marshal(map[string]string{classField: cmp.Or(i.PayloadClass, own, class, defaultMap)}) // every text can be written
		last, _ := marshal(without(i.unknown, known))
		for _, more := range []json.RawMessage{rest, last} {
			if string(more) != "{}" {
				object = slices.Concat(object[:len(object)-1], []byte(","), more[1:])
			}
		}
		return object, nil
	case '[':
		class = cmp.Or(i.PayloadClass, class, defaultSlice)
	case 'n': // null
		return data, nil
	default:
		class = i.PayloadClass // "" or, for a number, such as Java's long
	}
	if class == "" {
		return data, nil
	}
	return marshal([]any{class, data})
}

// decodePayload sets the payload, its class, and those of its fields that are unknown to T: a T that has read them does not write them.
func (i *Instance[T]) decodePayload(data json.RawMessage) error {
	class, value, all := cutClass(data)
	var pair []json.RawMessage
	if json.Unmarshal(data, &pair) == nil && len(pair) == 2 && json.Unmarshal(pair[0], &class) == nil && class != "" {
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
	_, _, known := cutClass(again)
	i.PayloadClass = intern(class)
	if unknown := without(all, known); len(unknown) > 0 {
		i.unknown = unknown
	}
	return nil
}

// fields are those of a JSON object.
type fields map[string]json.RawMessage

// cutClass returns the class of an object in valid JSON, the object without it, and the fields of that. Anything else has neither.
func cutClass(data json.RawMessage) (class string, rest json.RawMessage, all fields) {
	_ = json.Unmarshal(data, &all)
	text, found := all[classField]
	if !found {
		return "", data, all
	}
	_ = json.Unmarshal(text, &class) // what is not a text is no class
	delete(all, classField)
	rest, _ = marshal(all)
	return class, rest, all
}

// without returns the fields whose names are not among those of others. Like encoding/json it takes a name in any case.
func without(all, others fields) fields {
	rest, names := fields{}, slices.Collect(maps.Keys(others))
	for name, value := range all {
		same := func(other string) bool { return strings.EqualFold(name, other) }
		if _, exactly := others[name]; !exactly && !slices.ContainsFunc(names, same) {
			rest[name] = value
		}
	}
	return rest
}

// marshal is json.Marshal without the escapes for HTML, which Java does not write.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
