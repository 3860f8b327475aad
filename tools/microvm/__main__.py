"""`python -m tools.microvm`: get QEMU and a kernel, if they are missing."""

import sys

from tools.microvm.getting import main

sys.exit(main())
