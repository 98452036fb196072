#!/bin/sh
# Runs every generator and fails when a file of the working tree is then not as
# it was. It compares with the tree rather than with the last commit, so that it
# can be run before a commit too.
set -eu
cd "$(dirname "$0")/.."

# One line per file that git tracks or would track: its hash and its name.
snapshot() {
	git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
		if [ -f "$file" ]; then
			printf '%s %s\n' "$(git hash-object "$file")" "$file"
		fi
	done
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
snapshot >"$dir/before"
go generate ./...
snapshot >"$dir/after"
if ! diff "$dir/before" "$dir/after"; then
	echo "generated files were not up to date; they are now: commit them" >&2
	exit 1
fi
