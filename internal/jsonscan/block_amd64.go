//go:build !purego

package jsonscan

import "golang.org/x/sys/cpu"

// vectors reports whether this processor can run passVectors: most since 2013 can.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasPCLMULQDQ && cpu.X86.HasPOPCNT

// passVectors is pass over n blocks from p on, with vectors of 32 bytes. It returns the
// number of blocks that it processed.
//
//go:noescape
func passVectors(b *blocks, p *byte, n int) (passed int)
