// Package nocopy marks types that must not be copied after their first use.
package nocopy

// Mark is a field of such a type, by which go vet reports copies (the check copylocks). It takes no
// memory if it is not the last field.
type Mark struct{}

func (*Mark) Lock()   {}
func (*Mark) Unlock() {}
