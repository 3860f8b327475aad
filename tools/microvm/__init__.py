"""What tests of microVMs need: QEMU, a kernel, and small guests made from this machine's own files."""
