#!/bin/sh
# psgd bench: what is wrong is said at once, in one sentence and before anything is measured: SOURCE BUILD.
set -eu
psgd=$2/psgd
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

fail() { echo "$*" >&2; exit 1; }
refuses() { # words command...
    words=$1; shift
    set +e; "$@" >said 2>&1; got=$?; set -e
    [ "$got" = 2 ] || fail "$*: exit status $got instead of 2: $(cat said)"
    grep -q -- "$words" said || fail "$*: no '$words' in: $(cat said)"
    [ "$(wc -l <said)" = 1 ] || fail "$*: more than one sentence: $(cat said)"
}

refuses "there is no group" "$psgd" bench groups --spec wrong --shape 4
refuses "'4y4' is not a shape" "$psgd" bench groups --spec tri --shape 4y4
refuses "'0' is not a shape" "$psgd" bench groups --shape 0
refuses "has 2 factors, but the tensor has 1 dimension" "$psgd" bench groups --spec scan --shape 4
refuses "no case has the spec 'wrong'" "$psgd" bench groups --spec wrong
refuses "no case has the shape '5x7'" "$psgd" bench groups --shape 5x7
refuses "no case of --quick has the spec 'kron(tri,norm)'" "$psgd" bench groups --quick --spec 'kron(tri,norm)'
refuses "no case has the rule 'wrong'" "$psgd" bench groups --rule wrong
refuses "option rule is one of" "$psgd" bench groups --spec dense --shape 4 --rule wrong
refuses "measures 'groups', 'optim' or 'images'" "$psgd" bench group
refuses "needs --data" "$psgd" bench images
refuses "needs --data" "$psgd" bench pictures # the name of before
refuses "f32 or f64" "$psgd" bench groups --dtype f16

"$psgd" bench groups --quick --json --spec tri --shape 3 >said || fail "tri of 3"
[ "$(grep -c '"spec":"tri","shape":"3"' said)" = 3 ] || fail "tri of 3: $(cat said)"

# Results that nobody gets are no success.
if [ -c /dev/full ]; then
    set +e; "$psgd" bench groups --quick --json --spec tri --shape 3 >/dev/full 2>said; got=$?; set -e
    [ "$got" = 1 ] || fail "a full disk: exit status $got instead of 1"
    grep -q "could not be written" said || fail "a full disk: $(cat said)"
fi
