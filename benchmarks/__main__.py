"""`python -m benchmarks` in a checkout, which is `framejit bench`."""
from __future__ import annotations

import argparse
import sys

from . import command

parser = argparse.ArgumentParser(prog="python -m benchmarks")
command.arguments(parser)
sys.exit(command.run(parser.parse_args()))
