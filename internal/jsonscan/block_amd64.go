//go:build !purego

package jsonscan

import "golang.org/x/sys/cpu"

// vectors is whether passVectors runs on this processor: most since 2013 do.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasPCLMULQDQ && cpu.X86.HasPOPCNT

// passVectors is pass over n blocks from p on, in vectors of 32 bytes. It returns how
// many blocks it passed.
//
//go:noescape
func passVectors(b *blocks, p *byte, n int) (passed int)
