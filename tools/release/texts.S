/* The texts that licenses.sh has written, for commands/libraries.c. */
    .section .rodata
    .globl libraries_text, licenses_text
libraries_text:
    .incbin "libraries"
    .byte 0
licenses_text:
    .incbin "licenses"
    .byte 0
    .section .note.GNU-stack, "", @progbits
