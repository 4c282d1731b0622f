#!/bin/sh
# Lets the standby of compose.nodes.yaml copy the primary. PostgreSQL's image runs it once, when it has made the database:
# from the start after this one on each commit waits for the standby. Before, nothing could be made without one.
set -eu
echo "host replication all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
psql -qX -U "$POSTGRES_USER" -d postgres -c "ALTER SYSTEM SET synchronous_standby_names = '*'"
