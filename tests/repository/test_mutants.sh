#!/bin/sh
# The bugs of make mutants still apply to the sources.
exec "$1/scripts/mutants" --check
