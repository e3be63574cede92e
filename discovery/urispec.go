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

// URISpec says how to make a URI of an instance: text, and variables between it. It is Curator's UriSpec.
type URISpec struct {
	Parts []URIPart `json:"parts"`
}

// URIPart is text or the name of a variable.
type URIPart struct {
	Value    string `json:"value"`
	Variable bool   `json:"variable"`
}

var uriPart = regexp.MustCompile(`\{\s*([^{}]*?)\s*\}|([^{}]+)`) // a variable or text

// ParseURISpec reads a pattern such as "{scheme}://{address}:{port}". The variables are scheme (https if there is an SSLPort, else
// http), name, id, address, port, ssl-port, registration-time-utc, service-type, and any of the caller's own. {[} and {]}
// stand for braces. The error is [framework.ErrBadArgument] if braces do not match.
func ParseURISpec(pattern string) (*URISpec, error) {
	if rest := uriPart.ReplaceAllString(pattern, ""); rest != "" {
		return nil, fmt.Errorf("%w: URI pattern %q has braces that do not match", framework.ErrBadArgument, pattern)
	}
	spec := &URISpec{}
	for _, match := range uriPart.FindAllStringSubmatch(pattern, -1) {
		if whole, name, text := match[0], match[1], match[2]; whole != "{}" { // which is nothing, as in Java
			spec.Parts = append(spec.Parts, URIPart{Value: name + text, Variable: text == ""})
		}
	}
	return spec, nil
}

// URI fills the URISpec of the instance. Values in variables replace those of the instance. Unknown variables and fields
// that are not set are empty, except registration-time-utc, which is "0", and service-type, which is "dynamic". The URI of an instance
// without a URISpec is empty, too.
func (i Instance[T]) URI(variables map[string]string) string {
	if i.URISpec == nil {
		return ""
	}
	values := map[string]string{
		"[": "{", "]": "}", "scheme": "http", "name": i.Name, "id": i.ID, "address": i.Address,
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
