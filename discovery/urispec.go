package discovery

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
)

// URISpec is a pattern for the URI of an instance, a list of texts and variables. It is Curator's
// UriSpec.
type URISpec struct {
	Parts []URIPart `json:"parts"`
}

// URIPart is literal text, or a variable whose name is Value.
type URIPart struct {
	Value    string `json:"value"`
	Variable bool   `json:"variable"`
}

var uriPart = regexp.MustCompile(`\{\s*([^{}]*?)\s*\}|([^{}]+)`) // a variable or text

// ParseURISpec parses a pattern such as "{scheme}://{address}:{port}". It returns
// [framework.ErrBadArgument] if a brace is unmatched.
//
// The variables are scheme (https with an SSLPort, else http), name, id, address, port, ssl-port,
// registration-time-utc, service-type, and those passed to [Instance.URI]. {[} and {]} stand for
// braces.
func ParseURISpec(pattern string) (*URISpec, error) {
	if rest := uriPart.ReplaceAllString(pattern, ""); rest != "" {
		return nil, fmt.Errorf("%w: unmatched braces in URI pattern %q", framework.ErrBadArgument, pattern)
	}
	spec := &URISpec{}
	for _, match := range uriPart.FindAllStringSubmatch(pattern, -1) {
		// "{}" is empty, as in Java.
		if whole, name, text := match[0], match[1], match[2]; whole != "{}" {
			spec.Parts = append(spec.Parts, URIPart{Value: name + text, Variable: text == ""})
		}
	}
	return spec, nil
}

// URI returns the instance's URI according to its URISpec, or "" without one. An entry in variables
// overrides the instance's value.
//
// An IPv6 address is enclosed in brackets. Unknown variables and unset fields are empty, except
// registration-time-utc, which is "0", and service-type, which is "dynamic".
func (i Instance[T]) URI(variables map[string]string) string {
	return i.uri(bracketed(i.Address), variables)
}

// uri is the URI with an address, which Java writes without brackets.
func (i *Instance[T]) uri(address string, variables map[string]string) string {
	if i.URISpec == nil {
		return ""
	}
	values := map[string]string{
		"[": "{", "]": "}", "scheme": "http", "name": i.Name, "id": i.ID, "address": address,
		"registration-time-utc": "0", "service-type": strings.ToLower(string(cmp.Or(i.Type, Dynamic))),
	}
	if !i.RegistrationTime.IsZero() {
		values["registration-time-utc"] = strconv.FormatInt(i.RegistrationTime.UnixMilli(), 10)
	}
	if i.Port != 0 {
		values["port"] = strconv.Itoa(i.Port)
	}
	if i.SSLPort != 0 {
		values["scheme"], values["ssl-port"] = "https", strconv.Itoa(i.SSLPort)
	}
	maps.Copy(values, variables)
	var uri strings.Builder
	for _, part := range i.URISpec.Parts {
		if part.Variable {
			part.Value = values[part.Value]
		}
		uri.WriteString(part.Value)
	}
	return uri.String()
}
