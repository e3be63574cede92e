package discovery

import (
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Addr returns the instance's address and port as host:port for net.Dial, or "" if one of them is
// missing.
func (i Instance[T]) Addr(port int) string {
	if i.Address == "" || port == 0 {
		return ""
	}
	return net.JoinHostPort(unbracketed(i.Address), strconv.Itoa(port))
}

// Secure reports whether callers must use https at the SSLPort. This is true if Port is 0, and for
// instances of Spring Cloud with both ports.
func (i Instance[T]) Secure() bool {
	return i.SSLPort != 0 && (i.Port == 0 || i.PayloadClass == springClass)
}

// PortOf returns the port that a Dubbo instance's metadata list for a protocol, such as "tri" for
// gRPC. It returns 0 if the protocol is not listed, and Port if the metadata list no endpoints.
func (i Instance[T]) PortOf(protocol string) int {
	if i.endpoints == nil {
		return i.Port
	}
	at := slices.IndexFunc(i.endpoints, func(e endpoint) bool { return e.Protocol == protocol })
	if at < 0 {
		return 0
	}
	port, _ := i.endpoints[at].Port.port()
	return port
}

// endpoint is an element of the metadata "dubbo.endpoints".
type endpoint struct {
	Port     whole  `json:"port"`
	Protocol string `json:"protocol"`
}

// endpointsOf returns the endpoints in the metadata of Dubbo, or nil.
func endpointsOf(class string, metadata map[string]string) (all []endpoint) {
	if class == dubboClass {
		// Metadata that cannot be parsed has no endpoints.
		_ = json.Unmarshal([]byte(metadata[dubboEndpoints]), &all)
	}
	return all
}

// unbracketed returns an address without the brackets that an IPv6 address may have.
func unbracketed(address string) string {
	if inner, found := strings.CutPrefix(address, "["); found && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]")
	}
	return address
}

// bracketed returns an address for a URI, where an IPv6 address has brackets.
func bracketed(address string) string {
	if host := unbracketed(address); strings.Contains(host, ":") {
		return "[" + strings.ReplaceAll(host, "%", "%25") + "]"
	}
	return address
}
