#!/bin/sh
# Counts words; what they are, the tool's README.md says.
set -eu
if [ "$#" -eq 0 ]; then
  echo "word-count needs a text" >&2
  exit 2
fi
printf '%s\n' "$*" | tr '[:upper:]' '[:lower:]' | tr -cs '[:alnum:]' '\n' | sed '/^$/d' \
  | sort | uniq -c | sort -k1,1nr -k2 \
  | awk '{total += $1; if (NR <= 5) list = list "\n" $2 ": " $1} END {print "words: " total + 0 list}'
