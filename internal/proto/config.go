package proto

import (
	"fmt"
	"strconv"
	"strings"
)

// Config is the content of /zookeeper/config.
type Config struct {
	Version int64
	Members []Member // empty for a standalone server
}

// Member is a server of an ensemble: see admin.Member.
type Member struct {
	ID        int64
	Addresses []string
	Observer  bool
	Client    string
}

// ParseConfig parses the configuration of an ensemble. It has lines such as
// "server.1=host:2888:3888:participant;0.0.0.0:2181", with "|" between several addresses of one
// server, and "version=100000000", which is hexadecimal. An error wraps [ErrMalformed].
func ParseConfig(text string) (Config, error) {
	var config Config
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, _ := strings.Cut(line, "=")
		var err error
		if id, found := strings.CutPrefix(name, "server."); found {
			var m Member
			m, err = parseMember(id, value)
			config.Members = append(config.Members, m)
		} else if name == "version" {
			config.Version, err = strconv.ParseInt(value, 16, 64)
		}
		if err != nil {
			return Config{}, fmt.Errorf("%w: line %q of the configuration", ErrMalformed, line)
		}
	}
	return config, nil
}

func parseMember(id, text string) (m Member, err error) {
	if m.ID, err = strconv.ParseInt(id, 10, 64); err != nil {
		return m, err
	}
	text, m.Client, _ = strings.Cut(text, ";")
	m.Client = strings.TrimSpace(m.Client)
	for address := range strings.SplitSeq(text, "|") {
		address = strings.TrimSpace(address)
		// Each address may have the role behind it.
		if rest, found := cutSuffixFold(address, ":observer"); found {
			address, m.Observer = rest, true
		} else if rest, found := cutSuffixFold(address, ":participant"); found {
			address = rest
		}
		m.Addresses = append(m.Addresses, address)
	}
	return m, nil
}

// cutSuffixFold is [strings.CutSuffix] for a suffix in any case.
func cutSuffixFold(s, suffix string) (string, bool) {
	if n := len(s) - len(suffix); n >= 0 && strings.EqualFold(s[n:], suffix) {
		return s[:n], true
	}
	return s, false
}
