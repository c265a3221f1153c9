#!/bin/sh
# Starts Valkey with the password and the size that the environment tells. They go in by standard input: what stands in a
# command, everybody on the machine can read.
password=$(printf %s "$REDISCLI_AUTH" | sed 's/[\\"]/\\&/g')
exec valkey-server - <<END
include /etc/valkey/valkey.conf
maxmemory $VALKEY_MAXMEMORY
requirepass "$password"
END
