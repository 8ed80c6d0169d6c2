#!/bin/sh
# Fetches the weights of a Vision Transformer from the public hub, for those who are online. Vitral itself never does.
#   deploy/get-model.sh NAME[@REVISION] [FOLDER]
#     NAME      as on the hub: timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k, or without a slash one of timm's own
#     FOLDER    where the model goes; default models/ and the last part of NAME
# The files land in a folder beside it, are compared with the digests that the hub names, and are opened once with
# `vitral inspect`. Only then do they take the place of what was there, by rename: a service that has the old weights
# mapped goes on with them until it is started again.
#   VITRAL        the command line; default build/vitral beside this script's folder, else the one in PATH
#   HF_TOKEN      for models that ask for one       HF_ENDPOINT   a mirror of the hub
set -eu
umask 022

hub=${HF_ENDPOINT:-https://huggingface.co}

fail() {
    echo "get-model: $*" >&2
    exit 1
}

case ${1:-} in
'' | -h | --help)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    [ $# -gt 0 ] && exit 0 || exit 2
    ;;
esac
[ $# -le 2 ] || fail "too many words: NAME[@REVISION] [FOLDER]"

name=${1%%@*}
revision=main
case $1 in *@*) revision=${1#*@} ;; esac
case $name in
*/*/* | /* | */ | . | .. | */.. | ../* | '') fail "$name is no name of the hub: it must be NAME or OWNER/NAME" ;;
*/*) ;;
*) name=timm/$name ;;
esac
case $name$revision in
*[!A-Za-z0-9._/-]*) fail "a name has letters, digits, dots, dashes and underscores only" ;;
esac
[ -n "$revision" ] || fail "no revision stands behind @"
folder=${2:-models/${name#*/}}
folder=${folder%/}

command -v curl >/dev/null || fail "curl is missing: apt-get install curl"
command -v sha256sum >/dev/null || fail "sha256sum is missing: apt-get install coreutils"
vitral=${VITRAL:-$(dirname "$0")/../build/vitral}
if [ ! -x "$vitral" ]; then
    [ -z "${VITRAL:-}" ] || fail "VITRAL=$VITRAL cannot be run"
    vitral=$(command -v vitral) || fail "there is no vitral to check the model with: run make, or name one in VITRAL"
fi

if [ -e "$folder" ] && [ ! -d "$folder" ]; then
    fail "$folder is there and is no folder"
fi
if [ -d "$folder" ] && [ ! -f "$folder/config.json" ] && [ -n "$(ls -A "$folder")" ]; then
    fail "$folder holds something else than a model: nothing is replaced"
fi
parent=$(dirname "$folder")
mkdir -p "$parent" || fail "$parent cannot be made"
work=$(mktemp -d "$parent/.get-model.XXXXXX") || fail "$parent cannot be written to"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The token goes in by a file, so that no list of processes shows it.
: >"$work/headers"
if [ -n "${HF_TOKEN:-}" ]; then
    (umask 077 && echo "Authorization: Bearer $HF_TOKEN" >"$work/secret")
    mv "$work/secret" "$work/headers"
fi

# fetch FILE [optional]: 0 it is there, 1 the model has no such file; anything else ends the script
fetch() {
    url=$hub/$name/resolve/$revision/$1
    status=0
    code=$(curl -sS -L --max-redirs 5 --connect-timeout 10 --speed-limit 1000 --speed-time 60 --retry 2 \
        -H @"$work/headers" -D "$work/answer" -w '%{http_code}' -o "$work/new/$1" "$url" 2>"$work/errors") || status=$?
    if [ "$status" -ne 0 ]; then
        case $status in
        5 | 6 | 7) fail "the hub $hub cannot be reached: is this machine online? Nothing was changed." ;;
        23) fail "no room for $1 in $parent. Nothing was changed." ;;
        28) fail "the hub $hub does not answer in time. Nothing was changed." ;;
        35 | 51 | 58 | 60) fail "no trusted connection to $hub ($(tail -n 1 "$work/errors")). Nothing was changed." ;;
        *) fail "$1 did not come through ($(tail -n 1 "$work/errors")). Nothing was changed." ;;
        esac
    fi
    case $code in
    200) ;;
    404)
        rm -f "$work/new/$1"
        return 1
        ;;
    401 | 403)
        if [ -n "${HF_TOKEN:-}" ]; then
            fail "the hub does not give $name to this HF_TOKEN, or there is no such model. Nothing was changed."
        fi
        fail "the hub knows no model $name, or wants a token for it (HF_TOKEN). Nothing was changed."
        ;;
    429) fail "the hub asks to wait a while (too many requests). Nothing was changed." ;;
    *) fail "the hub answered $code for $1. Nothing was changed." ;;
    esac
    # Large files: the hub names the SHA-256 in the first of its answers.
    digest=$(tr -d '\r"' <"$work/answer" | sed -n 's/^[Xx]-[Ll]inked-[Ee][Tt]ag: *\([0-9a-f]\{64\}\)$/\1/p' | head -n 1)
    if [ -n "$digest" ] && ! echo "$digest  $work/new/$1" | sha256sum --check --status; then
        fail "$1 has other bytes than the hub promised. Nothing was changed."
    fi
    echo "  $1, $(wc -c <"$work/new/$1") bytes${digest:+, digest as promised}"
}

mkdir "$work/new"
echo "$name at $revision"
fetch config.json || fail "the hub has no model $name with a config.json at revision $revision. Nothing was changed."
if ! fetch model.safetensors; then
    fetch model.safetensors.index.json || fail "$name has no weights as safetensors. Nothing was changed."
    parts=$(grep -o '"[A-Za-z0-9._-]*\.safetensors"' "$work/new/model.safetensors.index.json" | tr -d '"' | sort -u)
    [ -n "$parts" ] || fail "the index of $name names no file. Nothing was changed."
    for part in $parts; do
        fetch "$part" || fail "$part, which the index of $name names, is not there. Nothing was changed."
    done
fi
fetch preprocessor_config.json || true
fetch labels.txt || true

if ! "$vitral" inspect --text "$work/new" >"$work/report" 2>&1; then
    sed "s|$work/new|$name|g" "$work/report" >&2
    fail "Vitral cannot serve $name. Nothing was changed."
fi
sed "s|$work/new|$folder|g" "$work/report"

if [ -d "$folder" ]; then
    mv "$folder" "$work/old"
    if ! mv "$work/new" "$folder"; then
        mv "$work/old" "$folder"
        fail "the new model could not be put in place. Nothing was changed."
    fi
else
    mv "$work/new" "$folder"
fi
echo "ready: vitrald --model $folder"
