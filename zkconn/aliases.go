package zkconn

import (
	"time"

	"github.com/go-zookeeper/zk"
)

// The types are go-zookeeper's own, so values can be passed to and from packages that use it.
type (
	ACL                   = zk.ACL
	CheckVersionRequest   = zk.CheckVersionRequest
	CreateRequest         = zk.CreateRequest
	CreateTTLRequest      = zk.CreateTTLRequest
	DNSHostProvider       = zk.DNSHostProvider
	DNSHostProviderOption = zk.DNSHostProviderOption
	DeleteRequest         = zk.DeleteRequest
	Dialer                = zk.Dialer
	ErrCode               = zk.ErrCode
	Event                 = zk.Event
	EventCallback         = zk.EventCallback
	EventType             = zk.EventType
	HostProvider          = zk.HostProvider
	Logger                = zk.Logger
	Mode                  = zk.Mode
	MultiResponse         = zk.MultiResponse
	PathVersionRequest    = zk.PathVersionRequest
	ServerClient          = zk.ServerClient
	ServerClients         = zk.ServerClients
	ServerStats           = zk.ServerStats
	SetDataRequest        = zk.SetDataRequest
	Stat                  = zk.Stat
	State                 = zk.State
)

// DefaultPort is the port of server addresses without a port.
const DefaultPort = zk.DefaultPort

// The kinds of nodes.
const (
	FlagPersistent                  = zk.FlagPersistent
	FlagEphemeral                   = zk.FlagEphemeral
	FlagSequence                    = zk.FlagSequence
	FlagEphemeralSequential         = zk.FlagEphemeralSequential
	FlagContainer                   = zk.FlagContainer
	FlagTTL                         = zk.FlagTTL
	FlagPersistentSequentialWithTTL = zk.FlagPersistentSequentialWithTTL
)

// The permissions of an ACL.
const (
	PermRead   = zk.PermRead
	PermWrite  = zk.PermWrite
	PermCreate = zk.PermCreate
	PermDelete = zk.PermDelete
	PermAdmin  = zk.PermAdmin
	PermAll    = zk.PermAll
)

// The types of events.
const (
	EventNodeCreated         = zk.EventNodeCreated
	EventNodeDeleted         = zk.EventNodeDeleted
	EventNodeDataChanged     = zk.EventNodeDataChanged
	EventNodeChildrenChanged = zk.EventNodeChildrenChanged
	EventSession             = zk.EventSession
	EventNotWatching         = zk.EventNotWatching
)

// The states of a connection.
const (
	StateUnknown           = zk.StateUnknown
	StateDisconnected      = zk.StateDisconnected
	StateConnecting        = zk.StateConnecting
	StateSyncConnected     = zk.StateSyncConnected
	StateAuthFailed        = zk.StateAuthFailed
	StateConnectedReadOnly = zk.StateConnectedReadOnly
	StateSaslAuthenticated = zk.StateSaslAuthenticated
	StateExpired           = zk.StateExpired
	StateConnected         = zk.StateConnected
	StateHasSession        = zk.StateHasSession
)

// The modes of a server.
const (
	ModeUnknown    = zk.ModeUnknown
	ModeLeader     = zk.ModeLeader
	ModeFollower   = zk.ModeFollower
	ModeStandalone = zk.ModeStandalone
)

// The errors are go-zookeeper's own values, and are returned as they are, so they can be compared
// with ==.
var (
	ErrAPIError                = zk.ErrAPIError
	ErrAuthFailed              = zk.ErrAuthFailed
	ErrBadArguments            = zk.ErrBadArguments
	ErrBadVersion              = zk.ErrBadVersion
	ErrClosing                 = zk.ErrClosing
	ErrConnectionClosed        = zk.ErrConnectionClosed
	ErrDeadlock                = zk.ErrDeadlock
	ErrInvalidACL              = zk.ErrInvalidACL
	ErrInvalidFlags            = zk.ErrInvalidFlags
	ErrInvalidPath             = zk.ErrInvalidPath
	ErrNoAuth                  = zk.ErrNoAuth
	ErrNoChildrenForEphemerals = zk.ErrNoChildrenForEphemerals
	ErrNoNode                  = zk.ErrNoNode
	ErrNoServer                = zk.ErrNoServer
	ErrNodeExists              = zk.ErrNodeExists
	ErrNotEmpty                = zk.ErrNotEmpty
	ErrNotLocked               = zk.ErrNotLocked
	ErrNothing                 = zk.ErrNothing
	ErrPtrExpected             = zk.ErrPtrExpected
	ErrReconfigDisabled        = zk.ErrReconfigDisabled
	ErrSessionExpired          = zk.ErrSessionExpired
	ErrSessionMoved            = zk.ErrSessionMoved
	ErrShortBuffer             = zk.ErrShortBuffer
	ErrUnhandledFieldType      = zk.ErrUnhandledFieldType
	ErrUnknown                 = zk.ErrUnknown
)

// DefaultLogger is the logger of a Conn without [WithLogger].
var DefaultLogger Logger = zk.DefaultLogger

// AuthACL returns an ACL that grants perms to all clients with the credentials of the creator.
func AuthACL(perms int32) []ACL { return zk.AuthACL(perms) }

// WorldACL returns an ACL that grants perms to all clients.
func WorldACL(perms int32) []ACL { return zk.WorldACL(perms) }

// DigestACL returns an ACL that grants perms to clients with the credentials user:password of
// scheme "digest".
func DigestACL(perms int32, user, password string) []ACL { return zk.DigestACL(perms, user, password) }

// FormatServers adds [DefaultPort] to addresses without a port.
func FormatServers(servers []string) []string { return zk.FormatServers(servers) }

// NewDNSHostProvider returns go-zookeeper's default host provider. A Conn does not need it, because
// it resolves host names at each connect.
func NewDNSHostProvider(options ...DNSHostProviderOption) *DNSHostProvider {
	return zk.NewDNSHostProvider(options...)
}

// WithLookupTimeout limits how long a [DNSHostProvider] waits for the resolution of host names.
func WithLookupTimeout(timeout time.Duration) DNSHostProviderOption {
	return zk.WithLookupTimeout(timeout)
}
