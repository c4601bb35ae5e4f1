//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Each is repeated to fill a vector.
DATA quote<>+0(SB)/8, $0x2222222222222222
GLOBL quote<>(SB), RODATA|NOPTR, $8
DATA slash<>+0(SB)/8, $0x5c5c5c5c5c5c5c5c
GLOBL slash<>(SB), RODATA|NOPTR, $8
DATA open<>+0(SB)/8, $0x7b7b7b7b7b7b7b7b
GLOBL open<>(SB), RODATA|NOPTR, $8
DATA close<>+0(SB)/8, $0x7d7d7d7d7d7d7d7d
GLOBL close<>(SB), RODATA|NOPTR, $8
DATA kind<>+0(SB)/8, $0x2020202020202020 // the bit in which the two kinds of brackets differ
GLOBL kind<>(SB), RODATA|NOPTR, $8

// MASK sets out to one bit for each of the 64 bytes in lo and hi, set where it is that of c.
// It clobbers Y6, Y7 and R13.
#define MASK(lo, hi, c, out) \
	VPCMPEQB lo, c, Y6    \
	VPCMPEQB hi, c, Y7    \
	VPMOVMSKB Y6, out     \
	VPMOVMSKB Y7, R13     \
	SHLQ $32, R13         \
	ORQ R13, out

// func passVectors(b *blocks, p *byte, n int) (passed int)
//
// What next does in Go, name by name:
//	AX quotes      BX slashes     CX inside
//	R8 inString    R9 escaped     R10 depth
//	R11 opening    R12 closing    DX, R13 scratch
TEXT ·passVectors(SB), NOSPLIT, $0-32
	MOVQ b+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), R15
	MOVQ blocks_inString(DI), R8
	MOVQ blocks_escaped(DI), R9
	MOVQ blocks_depth(DI), R10
	VPBROADCASTQ quote<>(SB), Y8
	VPBROADCASTQ slash<>(SB), Y9
	VPBROADCASTQ open<>(SB), Y10
	VPBROADCASTQ close<>(SB), Y11
	VPBROADCASTQ kind<>(SB), Y12
	VPCMPEQB X13, X13, X13
	MOVQ $0x5555555555555555, R14 // even

block:
	TESTQ R15, R15
	JZ end
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	MASK(Y0, Y1, Y8, AX)
	MASK(Y0, Y1, Y9, BX)

	// A block of text alone: nothing changes but that an escape has ended.
	MOVQ AX, DX
	ORQ BX, DX
	JNZ strings
	TESTQ R8, R8
	JZ strings
	XORL R9, R9
	JMP next

strings:
	// escapes
	MOVQ R9, DX
	NOTQ DX
	ANDQ DX, BX           // slashes &^= before
	LEAQ (R9)(BX*2), DX   // follows
	MOVQ R14, R13
	ORQ DX, R13
	NOTQ R13
	ANDQ BX, R13          // odd := slashes &^ even &^ follows
	XORL R9, R9
	ADDQ BX, R13          // sum, carry
	ADCQ $0, R9
	SHLQ $1, R13
	XORQ R14, R13
	ANDQ DX, R13
	NOTQ R13
	ANDQ R13, AX          // quotes &^= escapes

	// evenOut: the product with all ones, without carries
	VMOVQ AX, X2
	VPCLMULQDQ $0, X13, X2, X2
	VMOVQ X2, CX
	XORQ R8, CX
	MOVQ CX, R8
	SARQ $63, R8

	VPOR Y0, Y12, Y2
	VPOR Y1, Y12, Y3
	MASK(Y2, Y3, Y10, R11)
	MASK(Y2, Y3, Y11, R12)
	NOTQ CX
	ANDQ CX, R11
	ANDQ CX, R12
	POPCNTQ R11, DX
	POPCNTQ R12, BX
	CMPQ BX, R10
	JGE stop
	ADDQ R10, DX
	CMPQ DX, $const_MaxDepth
	JGT stop
	SUBQ BX, DX
	MOVQ DX, R10

next:
	ADDQ $64, SI
	DECQ R15
	JMP block

stop:
	MOVQ R11, blocks_opening(DI)
	MOVQ R12, blocks_closing(DI)

end:
	VZEROUPPER
	MOVQ R8, blocks_inString(DI)
	MOVQ R9, blocks_escaped(DI)
	MOVQ R10, blocks_depth(DI)
	SUBQ p+8(FP), SI
	SHRQ $6, SI
	MOVQ SI, passed+24(FP)
	RET
