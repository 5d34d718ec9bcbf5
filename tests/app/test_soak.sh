#!/bin/sh
# Ten kills, each followed by a resumption; make soak does hundreds.
exec "$1/scripts/soak" "$2" 10
