#!/bin/sh
# Lets the standby of compose.nodes.yaml copy the primary. PostgreSQL's image runs it once, when it makes the database.
set -eu
echo "host replication all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
