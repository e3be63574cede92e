// Package interop runs Java's Curator, kazoo and this library on the same paths of a real ensemble.
// They contend for the same locks: both sides change a counter that only the lock protects, or
// count the marks of the holders.
//
// They lead in turn, through faults, and the times of all terms are compared on one clock. They
// join the same groups, keep nodes that the other side's cache shows, cache the same tree, and
// register and find services.
//
// The peers are Debian's (libcurator-recipes-java and libcurator-discovery-java 5.4, python3-kazoo
// 2.8), in containers from the image that scripts/peer-image.sh builds. The package is its own
// module, since it uses a Docker client.
//
//	make test          # a short run, with everything else; make nightly has a long one
//	scripts/peer-image.sh && CURATOR_TEST_DOCKER=1 go test -v ./test/interop
package interop
