"""``python -m subquad``: the command line."""

import sys

from subquad.cli.app import main

sys.exit(main())
