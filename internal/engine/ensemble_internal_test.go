package engine

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/proto"
)

func TestConfigurationsAreParsed(t *testing.T) { // CUR-ENS-01, -06, CURATOR-638, -664
	for text, want := range map[string][]string{
		"server.1=zk1:2888:3888:participant;0.0.0.0:2181\nversion=100000000": {"zk1:2181"},
		"server.1=zk1:2888:3888:participant;2182":                            {"zk1:2182"},
		"server.1=zk1:2888:3888:observer;10.0.0.1:2182":                      {"10.0.0.1:2182"},
		"server.1=zk1:2888:3888;[::]:2181":                                   {"zk1:2181"},
		"server.1=10.0.0.7:2888:3888:participant;[::0]:2181":                 {"10.0.0.7:2181"},
		"server.1=10.0.0.7:2888:3888:participant;client.example:2182":        {"client.example:2182"},
		"server.1=[2001:db8::1]:2888:3888:participant;[2001:db8::2]:2182":    {"[2001:db8::2]:2182"},
		"server.1=[2001:db8::1]:2888:3888:participant;0.0.0.0:2181":          {"[2001:db8::1]:2181"},
		"server.1=zk1:2888:3888;[0:0:0:0:0:0:0:0]:2181":                      {"zk1:2181"},
		"server.1=[fe80::1]:2888:3888;2181":                                  {"[fe80::1]:2181"},
		"server.1=zk1:2888:3888|zk1b:2888:3888;2181":                         {"zk1:2181", "zk1b:2181"},
		"server.2=b:1:2;2181\r\nserver.1=a:1:2;2181\r\n":                     {"a:2181", "b:2181"},
		"server.1=zk1:2888:3888:participant;0.0.0.0:2181;0.0.0.0:2281":       {"zk1:2181"}, // ZOOKEEPER-4276: a port for TLS
		"server.1=zk1:2888:3888:participant;;0.0.0.0:2281":                   nil,          // and no other
		"server.1=zk1:2888:3888:participant":                                 nil,          // it does not say for clients
		"server.1=zk1:2888:3888;port":                                        nil,
		"server.1=;2181":                                                     nil,
		"server.1=0.0.0.0:2888:3888;0.0.0.0:2181":                            nil, // the client's own machine
		"server.1=[::]:2888:3888;2181":                                       nil,
		"server.1=0.0.0.0:2888:3888;zk1:2181":                                {"zk1:2181"},
		"version=7":                                                          nil,
		"":                                                                   nil,
		"server.1":                                                           nil,
		"server.1=[":                                                         nil,
	} {
		config, err := proto.ParseConfig(text)
		require.NoError(t, err)
		require.Equal(t, want, clientAddresses(config.Members, ""), text)
	}
	one := []proto.Member{{Addresses: []string{"zk1:2888:3888"}, Client: "0.0.0.0:2181"}}
	require.Equal(t, []string{"zk1:2281"}, clientAddresses(one, "2281"), "TLS")
	log := slog.New(slog.DiscardHandler)
	tracking := &tracker{core: &core{cfg: Config{Log: log}}, tracked: []string{"zk1:2281"}}
	tracking.adopt("server.x=zk2:2888:3888;2181", true) // cannot be parsed
	require.Equal(t, []string{"zk1:2281"}, tracking.tracked, "they stay")
	require.Equal(t, "2281", commonPort([]string{"a:2281", "b:2281"}))
	require.Empty(t, commonPort([]string{"a:2281", "b"}))
	require.Empty(t, commonPort(nil))
}
