#!/bin/sh
# psgd minimize, psgd paper and the examples of optimizers, as a user runs them: SOURCE BUILD.
set -eu
psgd=$2/psgd
examples=$2/examples
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

fail() { echo "$*" >&2; exit 1; }
refuses() { # status words command...
    want=$1 words=$2; shift 2
    set +e; "$@" >said 2>&1; got=$?; set -e
    [ "$got" = "$want" ] || fail "$*: exit status $got instead of $want: $(cat said)"
    grep -q -- "$words" said || fail "$*: no '$words' in: $(cat said)"
    [ "$(wc -l <said)" = 1 ] || fail "$*: more than one sentence: $(cat said)"
}

"$examples"/example_minimize | grep -q "converged at (1, 1)" || fail "example minimize"
"$examples"/example_training >training.log || fail "example training: $(cat training.log)"
"$examples"/example_resume | grep -q ": the same" || fail "example resume"

[ "$("$psgd" minimize --list | grep -c '[0-9]  ')" -ge 35 ] || fail "--list shows fewer than 35 functions"
"$psgd" minimize rosenbrock | grep -q "^converged" || fail "rosenbrock"
"$psgd" minimize chained-rosenbrock --n 5 | grep -q "^converged" || fail "rosenbrock in 5 dimensions"
"$psgd" minimize beale --method lbfgs | grep -q "^converged" || fail "lbfgs"
"$psgd" minimize --function "$examples"/own_function.so | grep -q "^converged" || fail "own function"
"$psgd" minimize --function "$examples"/own_function.so \
    --compare 'gd:lr=0.01,momentum:lr=0.01,lbfgs,newton-cg,psgd-newton:group=tri:lr=0.5:step=0.2,minimize' >table
[ "$(wc -l <table)" = 7 ] || fail "the table has $(wc -l <table) lines"
[ "$(grep -c converged table)" -ge 4 ] || fail "too few converge: $(cat table)"

"$psgd" minimize watson --check >said || fail "--check: $(cat said)"
[ "$(grep -c 'right: 0 of 6 entries' said)" = 2 ] || fail "--check says: $(cat said)"
cat >wrong.c <<'END'
#include <stdint.h>
int64_t psgd_function_start(int64_t room, double *x)
{
    for (int i = 0; i < 3 && room >= 3; i++) x[i] = i + 1;
    return 3;
}
int psgd_function_evaluate(int64_t n, const double *x, double *value, double *g)
{
    *value = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
    for (int i = 0; g && i < n; i++) g[i] = i == 1 ? -2 * x[i] : 2 * x[i];
    return 0;
}
END
cc -shared -fPIC -o wrong.so wrong.c
set +e; "$psgd" minimize --function wrong.so --check >said; got=$?; set -e
[ $got = 1 ] || fail "--check of a wrong gradient ends with $got"
grep -q "gradient wrong: 1 of 3 .* entry 1, which is -4 and should be 4" said || fail "--check says: $(cat said)"
set +e; "$psgd" minimize --function wrong.so >said; set -e
grep -q "the gradient disagrees with differences" said || fail "a wrong gradient ends with: $(cat said)"
"$psgd" minimize --function wrong.so --compare lbfgs,minimize >said
grep -q "^minimize .*  no minimum found$" said || fail "a wrong gradient in a table: $(cat said)"

sed 's/\*value = .*/*value = -x[0] * x[0] - x[1] * x[1] - x[2] * x[2];/; s/i == 1 ? .*;/-2 * x[i];/' wrong.c >falling.c
cc -shared -fPIC -o falling.so falling.c
for method in minimize lbfgs newton-cg gd; do
    set +e; "$psgd" minimize --function falling.so --method $method >said; got=$?; set -e
    [ $got = 1 ] || fail "$method on a function without a minimum ends with $got: $(cat said)"
    grep -q "^the function has no minimum" said || fail "$method on a function without a minimum: $(cat said)"
done

refuses 2 "did you mean rosenbrock?" "$psgd" minimize rosenbrok
refuses 2 "takes 2 to" "$psgd" minimize extended-rosenbrock --n 3
refuses 2 "did you mean --tolerance?" "$psgd" minimize rosenbrock --tolerence 1
refuses 2 "other methods than minimize; name one with --method" "$psgd" minimize rosenbrock --momentum 0.5
refuses 2 "there is no option momentum" "$psgd" minimize rosenbrock --method minimize --momentum 0.5
refuses 2 "below 1" "$psgd" minimize rosenbrock --method psgd --step 1
refuses 2 "did you mean lbfgs?" "$psgd" minimize rosenbrock --compare lbfg
refuses 2 "^psgd: there is no method foo; methods are minimize, gd, psgd-newton" "$psgd" minimize rosenbrock --method foo
refuses 2 "^psgd: there is no method foo; methods are" "$psgd" minimize rosenbrock --compare gd:lr=1e-4,foo
"$psgd" minimize rosenbrock --method gd 2>&1 | grep -q "a smaller --lr may help" || fail "gd diverges without a hint"
refuses 2 "option=value" "$psgd" minimize rosenbrock --compare sgd:lr
refuses 2 "needs one NAME" "$psgd" minimize
refuses 1 "cannot load" "$psgd" minimize --function ./none.so
refuses 1 "has no function psgd_function_start" "$psgd" minimize --function "$2"/libpsgd.so
refuses 2 "name of an experiment" "$psgd" paper nothing

"$psgd" paper rosenbrock --out figure >medians
grep -q "psgd newton" medians || fail "no medians"
[ "$(head -n 1 figure/rosenbrock.csv)" = "method,seed,iteration,value" ] || fail "columns of the csv"
[ "$(wc -l <figure/rosenbrock.csv)" = $((1 + 5 * 21 * 1001)) ] || fail "rows of the csv"
[ -s figure/rosenbrock.svg ] && [ -s figure/rosenbrock.png ] || fail "no figure"
