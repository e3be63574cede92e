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

// Instance is one running instance of a service. It is Curator's ServiceInstance.
type Instance[T any] struct {
	Name    string // service name
	ID      string // instance id; Register chooses one if it is empty
	Address string // host name or IP address
	Port    int    // 0 for none, null in JSON
	SSLPort int    // 0 for none, null in JSON
	Payload T

	// PayloadClass is the Java class of the payload, "@class" in JSON. Reading an instance sets it.
	// The default for an object or a list is the class set by [WithJavaClass].
	PayloadClass string

	RegistrationTime time.Time // set by Register if zero
	Type             Type      // empty for Dynamic
	URISpec          *URISpec  // pattern of its URI, or nil

	// Disabled excludes the instance from [Watch.Pick]. Java's field "enabled" is the opposite.
	// Writing a disabled instance fails with framework.ErrBadArgument without [WithEnabledField].
	//
	// An instance of Spring Cloud is also read as disabled if its metadata have an
	// "instance_status" other than "UP". If it is written again, "enabled" stays true, so a caller
	// that changes the status must also change Disabled. Spring evaluates only the status. An
	// instance of Dubbo with revision "0" is read as disabled, too.
	Disabled bool

	path    string // the path of the node from which it was read; "" if it was not read
	czxid   int64  // the czxid of that node: a recreated node has another
	unknown fields // fields of its payload without a counterpart in T; nil: none

	endpoints []endpoint // endpoints of an instance of Dubbo; nil: none
	harm      error      // why Java's callers of the service fail; nil if they do not
}

// Type determines the kind of an instance's node, and its lifetime.
type Type string

// The types of instances, and their nodes.
const (
	Dynamic           Type = "DYNAMIC"            // ephemeral
	Static            Type = "STATIC"             // persistent, and deleted by Close
	Permanent         Type = "PERMANENT"          // persistent, not kept, see [Discovery.Write]
	DynamicSequential Type = "DYNAMIC_SEQUENTIAL" // ephemeral, with a number after the id
)

// String describes the instance in logs as name/id at address port n, without the payload.
func (i Instance[T]) String() string {
	return fmt.Sprintf("%s/%s at %s port %d", i.Name, i.ID, i.Address, i.Port)
}

// Path returns the path of the node from which the instance was read, or "" if it was not read.
func (i Instance[T]) Path() string { return i.path }

func (i *Instance[T]) znode() znode { return znode{i.path, i.czxid} }

const (
	classField   = "@class"
	defaultMap   = "java.util.LinkedHashMap" // Java's class for a Map
	defaultSlice = "java.util.ArrayList"     // Java's class for a List
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

// lenient is an instance in JSON, with all that Java reads.
type lenient struct {
	Name             text            `json:"name"`
	ID               text            `json:"id"`
	Address          text            `json:"address"`
	Port             whole           `json:"port"`
	SSLPort          whole           `json:"sslPort"`
	Payload          json.RawMessage `json:"payload"`
	RegistrationTime whole           `json:"registrationTimeUTC"`
	Type             kind            `json:"serviceType"`
	URISpec          spec            `json:"uriSpec"`
	Enabled          flag            `json:"enabled"`
}

// encode returns the JSON of an instance that has an ID, a Type, a RegistrationTime and possible
// ports, as Java's JsonInstanceSerializer writes it. It refuses one on which Java's callers fail.
func encode[T any](i Instance[T], cfg config) ([]byte, error) {
	payload, err := i.encodePayload(cfg.class)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if err := i.harms(payload); err != nil {
		return nil, err
	}
	metadata, _ := metadataOf(i.PayloadClass, payload) // harms has read it
	w := wire{
		Name: i.Name, ID: i.ID, Address: orNull(i.Address), Port: orNull(uint16(i.Port)), SSLPort: orNull(uint16(i.SSLPort)),
		Payload: payload, RegistrationTime: i.RegistrationTime.UnixMilli(), Type: i.Type, URISpec: i.URISpec,
	}
	// Without parts, Java's ServiceProvider would fail for all instances of the service.
	if w.URISpec != nil && w.URISpec.Parts == nil {
		w.URISpec = &URISpec{Parts: []URIPart{}}
	}
	// An enabled field is written only if the status does not say the same.
	switch enabled := !i.Disabled || outOfService(i.PayloadClass, metadata); {
	case cfg.enabledField:
		w.Enabled = &enabled
	case !enabled:
		return nil, errors.New("a disabled instance requires WithEnabledField")
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

var errUnreadable = errors.New("unreadable instance")

// decode reads the instance of a node. It ignores unknown fields. Missing fields and null leave the
// default: the service's name, and the id of the path. Without data it returns nil: the node is the
// parent of a service whose name has a slash.
func decode[T any](f Format, name, path string, data []byte, stat *zk.Stat) (_ *Instance[T], err error) {
	defer func() {
		if p := recover(); p != nil { // a method of T panicked
			err = fmt.Errorf("%w: panic: %v", errUnreadable, p)
		}
	}()
	switch {
	case len(data) == 0:
		return nil, nil
	case f != Curator:
		return decodeMember[T](f, name, path, data, stat)
	}
	i := &Instance[T]{path: path, czxid: stat.Czxid}
	r := &lenient{Payload: json.RawMessage("null"), Type: kind(Dynamic), Enabled: true}
	err = unmarshal(data, &r)
	if err == nil && r == nil {
		err = errors.New("null is not an instance")
	}
	if err == nil {
		err = i.decodePayload(r.Payload)
	}
	if err == nil {
		i.Port, err = r.Port.port()
	}
	if err == nil {
		i.SSLPort, err = r.SSLPort.port()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	// An ID equal to the node's name shares its memory.
	if _, i.ID = framework.Split(path); string(r.ID) != "" && string(r.ID) != i.ID {
		i.ID = string(r.ID)
	}
	i.Name, i.Type, i.URISpec = intern(cmp.Or(string(r.Name), name)), intern(Type(r.Type)), r.URISpec.URISpec
	metadata, _ := metadataOf(i.PayloadClass, r.Payload) // harms returns the error
	i.Address, i.Disabled = string(r.Address), !bool(r.Enabled) || outOfService(i.PayloadClass, metadata)
	i.endpoints = endpointsOf(i.PayloadClass, metadata)
	i.harm = i.harms(r.Payload)
	if r.RegistrationTime != 0 {
		i.RegistrationTime = time.UnixMilli(int64(r.RegistrationTime)).UTC()
	}
	return i, nil
}

// intern returns a string that equal strings share: all instances of a service have it.
func intern[S ~string](s S) S { return unique.Make(s).Value() }

// encodePayload writes the class where Java's JSON library does: as the first field of an object,
// and before anything else. Fields of the node that T does not know follow last.
func (i *Instance[T]) encodePayload(class string) (json.RawMessage, error) {
	data, err := marshal(i.Payload)
	if err != nil {
		return nil, err
	}
	switch data[0] {
	case '{':
		own, rest, known := cutClass(data)
		// marshal does not fail for text.
		object, _ := marshal(map[string]string{classField: cmp.Or(i.PayloadClass, own, class, defaultMap)})
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

// decodePayload sets the payload, its class, and its fields that are unknown to T. A T that has
// read them does not write them.
func (i *Instance[T]) decodePayload(data json.RawMessage) error {
	class, value, all := cutClass(data)
	var pair []json.RawMessage
	if json.Unmarshal(data, &pair) == nil && len(pair) == 2 && json.Unmarshal(pair[0], &class) == nil && class != "" {
		value = pair[1]
	}
	err := unmarshalPayload(value, &i.Payload)
	if err != nil && data[0] == '[' { // a list of a writer that puts no class in front
		class, err = "", unmarshalPayload(data, &i.Payload)
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

// fields are the fields of a JSON object.
type fields map[string]json.RawMessage

// cutClass returns the class of an object in valid JSON, the object without it, and the fields of
// that. Anything else has neither.
func cutClass(data json.RawMessage) (class string, rest json.RawMessage, all fields) {
	_ = json.Unmarshal(data, &all)
	text, found := all[classField]
	if !found {
		return "", data, all
	}
	_ = json.Unmarshal(text, &class) // only a string is a class
	delete(all, classField)
	rest, _ = marshal(all)
	return class, rest, all
}

// without returns the fields whose names others do not have. Like encoding/json it ignores case.
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

// marshal encodes a value as JSON without the escapes for HTML, which Java does not write.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
