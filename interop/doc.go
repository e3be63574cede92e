// Package interop has Java's Curator and kazoo contend with this library for the same locks, on a real
// ensemble: both sides change a counter without any protection but the lock, or count the marks of those
// who hold. The peers are Debian's (libcurator-recipes-java 5.4, python3-kazoo 2.8), in
// containers made from the image that scripts/peer-image.sh builds. It is a module of its own, since it uses a
// Docker client.
//
//	make test          # with everything else
//	scripts/peer-image.sh && CURATOR_TEST_DOCKER=1 go test -v ./interop
package interop
