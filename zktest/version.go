package zktest

import "fmt"

// Version is a release of ZooKeeper. See [WithVersion].
type Version int

// The releases that a server can be like. What differs is listed in the package comment.
const (
	V3_8 Version = iota + 1 // 3.8.0
	V3_9                    // 3.9.6
)

// newest is the version of a server by default.
const newest = V3_9

// versionNumbers are the versions as they are written.
var versionNumbers = map[Version]string{V3_8: "3.8.0", V3_9: "3.9.6"}

// String is the number of the release, such as "3.9.6".
func (v Version) String() string {
	if number := versionNumbers[v]; number != "" {
		return number
	}
	return fmt.Sprintf("version %d", int(v))
}

// WithVersion makes a server that behaves as this release of ZooKeeper does. The default is the newest one, [V3_9].
// With [LikeKeeper] it is an error.
func WithVersion(v Version) Option {
	return func(c *config) error {
		if versionNumbers[v] == "" {
			return fmt.Errorf("zktest: no such version: %d", int(v))
		}
		c.version = v
		return nil
	}
}
