# A boot sector that proves that an accelerator runs 64-bit guests, and runs them at the processor's own speed.
#
# The kvm driver boots it to decide whether /dev/kvm can be used.  That the device opens proves nothing, and that
# a guest reaches long mode proves little: there are hosts whose kvm emulates such a guest instruction by
# instruction, a million a second, until it meets one that it does not know.  So the sector enters long mode with
# paging, takes an exception there, uses SSE, counts to 2^26 (below 0.1 s on a processor, a minute when emulated),
# writes "GANTRY-64\n" to the debug console (port 0xe9) and ends QEMU through isa-debug-exit (port 0xf4, value
# 0x10: exit status 33).  A guest that cannot do all this writes nothing: the caller's time limit decides.
#
#   as --64 -o probe.o probe.S
#   ld -m elf_x86_64 -Ttext 0x7c00 --oformat binary -o probe.bin probe.o     (exactly 512 bytes)

        .set    PML4, 0x1000            # three page tables and the IDT: low memory that the firmware left free
        .set    PDPT, 0x2000
        .set    PD,   0x3000
        .set    IDT,  0x4000
        .set    STACK, 0x7c00

        .code16
        .globl  _start
_start: cli
        cld
        ljmp    $0, $1f
1:      xorl    %eax, %eax
        movw    %ax, %ds
        movw    %ax, %es
        movw    %ax, %ss
        movw    $STACK, %sp
        movw    $PML4, %di              # clear the four pages
        movw    $(4 * 4096 / 4), %cx
        rep     stosl
        movw    $(PDPT | 3), PML4       # present, writable
        movw    $(PD | 3), PDPT
        movw    $0x83, PD               # one 2 MiB page, virtual = physical
        movl    $(CODE << 16), IDT + 3 * 16     # vector 3: selector ...
        movw    $trap, IDT + 3 * 16             # ... offset ...
        movw    $0x8e00, IDT + 3 * 16 + 4       # ... present interrupt gate
        lgdt    gdtr
        lidt    idtr
        movl    %cr4, %eax
        orb     $0x20, %al              # PAE
        movl    %eax, %cr4
        movl    $PML4, %eax
        movl    %eax, %cr3
        movl    $0xc0000080, %ecx       # EFER
        rdmsr
        orb     $1, %ah                 # LME
        wrmsr
        movl    %cr0, %eax
        orl     $0x80000001, %eax       # paging and protection: long mode from here
        movl    %eax, %cr0
        ljmp    $CODE, $long

        .code64
long:   movl    $DATA, %eax
        movl    %eax, %ds
        movl    %eax, %es
        movl    %eax, %ss
        movl    $STACK, %esp
        int3
        movq    %cr0, %rax
        andb    $0xfb, %al              # no x87 emulation (EM off) ...
        orb     $2, %al                 # ... MP on
        movq    %rax, %cr0
        movq    %cr4, %rax
        orw     $0x600, %ax             # OSFXSR, OSXMMEXCPT
        movq    %rax, %cr4
        movaps  %xmm0, %xmm1
        paddq   %xmm1, %xmm0
        movl    $(1 << 26), %ecx
1:      decl    %ecx
        jnz     1b
        movabsq $0x362d5952544e4147, %rbx       # "GANTRY-6"; needs 64-bit registers to come out whole
1:      movb    %bl, %al
        outb    %al, $0xe9
        shrq    $8, %rbx
        jnz     1b
        movw    %bp, %bx                # "4\n", left there by the exception's handler
        movb    %bl, %al
        outb    %al, $0xe9
        movb    %bh, %al
        outb    %al, $0xe9
        movl    $0x10, %eax
        outl    %eax, $0xf4
2:      hlt
        jmp     2b
trap:   movl    $0x0a34, %ebp
        iretq

        .balign 8
gdt:    .quad   0
        .set    CODE, . - gdt
        .quad   0x00209a0000000000      # 64-bit code
        .set    DATA, . - gdt
        .quad   0x0000920000000000
gdtr:   .word   . - gdt - 1
        .long   gdt
idtr:   .word   4 * 16 - 1
        .long   IDT

        .org    510
        .word   0xaa55
