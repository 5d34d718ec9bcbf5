/* Specs that are wrong, shapes that do not fit, options that do not exist: every refusal says what and where. */
#include "specs.h"
#include "support.h"

static psgd_status try_spec(const char *spec, int ndim, const int64_t *shape)
{
    psgd_precond *precond = (psgd_precond *)&precond; /* anything but NULL */
    psgd_status status = psgd_precond_create(NULL, spec, ndim, shape, PSGD_F32, NULL, &precond);
    if (status == PSGD_OK) {
        psgd_precond_free(precond);
    } else {
        assert_null(precond);
    }
    return status;
}

typedef struct refusal {
    const char *spec;
    int ndim;
    int64_t shape[3];
    const char *words, *more; /* both are in the sentence */
} refusal;

static const refusal refusals[] = {
    /* names */
    {"", 1, {4}, "a group name is missing", "end of the spec"},
    {"   ", 1, {4}, "a group name is missing", "end of the spec"},
    {"digo", 1, {4}, "there is no group 'digo' (column 1)", "did you mean diag?"},
    {"kron(tri, denes)", 2, {2, 2}, "there is no group 'denes' (column 11)", "did you mean dense?"},
    {"  trii", 1, {4}, "there is no group 'trii' (column 3)", "did you mean tri?"},
    {"zzzzzzzz", 1, {4}, "there is no group 'zzzzzzzz' (column 1)", "psgd group --list"},
    {"Diag", 1, {4}, "lower case", "column 1"},
    {"kron(,tri)", 2, {2, 2}, "a group name", "column 6"},
    {"sum(diag:2,)", 1, {4}, "a group name", "column 12"},
    {"?!", 1, {4}, "column 1", "'?!'"},
    /* brackets */
    {"kron(tri,tri", 2, {2, 2}, "the bracket of kron at column 5 is not closed", "column 13"},
    {"kron(tri,tri))", 2, {2, 2}, "should end at column 14", "')'"},
    {"t(diag", 1, {4}, "the bracket of t at column 2 is not closed", "column 7"},
    {"t(diag,tri)", 1, {4}, "t takes 1 group, not 2", "column 1"},
    {"t", 1, {4}, "t takes 1 group, not 0", "column 1"},
    {"kron", 1, {4}, "kron takes at least 1 group, not 0", "column 1"},
    {"block(diag:4)", 1, {4}, "block takes 2 groups, not 1", "column 1"},
    {"block(diag:1,diag:1,diag:2)", 1, {4}, "block takes 2 groups, not 3", "column 1"},
    {"diag(tri)", 1, {4}, "diag takes no arguments", "column 1"},
    {"diag()", 1, {4}, "diag takes no arguments", "column 1"},
    {"diag tri", 1, {4}, "should end at column 6", "'tri'"},
    {"diag:4", 1, {4}, "should end at column 5", "':4'"},
    {"kron(diag;tri)", 2, {2, 2}, "',' or ')' expected at column 10", "kron"},
    /* sizes */
    {"sum(diag:2,tri:3)", 1, {6}, "sum at column 1 has size 5", "needs 6"},
    {"sum(diag:2,tri:5)", 1, {6}, "sum at column 1 has size 7", "needs 6"},
    {"sum(diag:6,tri)", 1, {6}, "its parts make 6", "leave nothing for tri"},
    {"sum(diag,tri)", 1, {6}, "leaves out the sizes of diag (column 5) and tri (column 10)", "at most one"},
    {"block(diag,tri)", 1, {6}, "leaves out the sizes of diag (column 7) and tri (column 12)", "at most one"},
    {"kron(tri:3,tri)", 2, {4, 5}, "tri at column 6 has size 3, but needs 4", ""},
    {"kron(sum(diag:2,tri:3),tri)", 2, {4, 5}, "sum at column 6 has size 5, but needs 4", ""},
    {"sum(diag:0,tri)", 1, {6}, "a size of 1 or more must follow ':' at column 10", "diag"},
    {"sum(diag:-2,tri)", 1, {6}, "a size of 1 or more must follow ':' at column 10", "diag"},
    {"sum(diag:x,tri)", 1, {6}, "a size of 1 or more must follow ':' at column 10", "diag"},
    {"sum(diag:,tri)", 1, {6}, "a size of 1 or more must follow ':' at column 10", "diag"},
    {"sum(diag:99999999999999999999,tri)", 1, {6}, "a size of 1 or more must follow ':' at column 10", "diag"},
    {"sum(sum(diag:2,tri:3):6,tri)", 1, {9}, "sum at column 5 is written with size 6, but its parts make 5", ""},
    {"tiles(diag,2)", 2, {4, 6}, "two whole numbers", "column 13"},
    {"tiles(diag)", 2, {4, 6}, "two whole numbers", "as in tiles(kron(dense,dense),2,3)"},
    {"tiles(diag,0,2)", 2, {4, 6}, "two whole numbers", "column 12"},
    {"tiles(diag,2,3,4)", 2, {4, 6}, "',' or ')' expected at column 15", ""},
    {"tiles(diag,5,2)", 2, {4, 6}, "a matrix of 4 x 6 into 5 x 2 tiles", "too many"},
    {"tiles(diag,2,2)", 1, {24}, "tiles at column 1 cuts a matrix", "the tensor has 1 dimension"},
    {"tiles(diag,2,2)", 3, {2, 3, 4}, "tiles at column 1 cuts a matrix", "the tensor has 3 dimensions"},
    {"tiles(diag,1000,1000)", 2, {1000, 1000}, "1000 x 1000 tiles", "at most 65536"},
    {"tiles(diag:6,2,3)", 2, {4, 6}, "diag at column 7 has size 6, but needs 4", ""},
    {"tiles(kron(tri,tri,tri),2,2)", 2, {4, 6}, "kron at column 7 has 3 factors", "2 dimensions"},
    {"tiles(tiles(diag,2,2),2,2)", 2, {8, 8}, "tiles may not stand at column 7", "at the root or under t"},
    {"sum(tiles(diag,2,2):4,diag)", 2, {4, 6}, "tiles may not stand at column 5", "at the root or under t"},
    {"sum(kron(tri:3,tri),diag:5)", 1, {17}, "needs a size", "tri at column 16"},
    {"sum(scan,diag:5)", 1, {17}, "needs a size", "column 5"},
    {"sum(kron(tri:4000000000,tri:4000000000,tri:4000000000),diag)", 1, {17}, "too large to multiply", "column 5"},
    {"sum(diag:9000000000000000000,diag:9000000000000000000,tri)", 1, {17}, "too large", "column 1"},
    /* places and dimensions */
    {"kron(tri,tri)", 3, {2, 2, 2}, "kron at column 1 has 2 factors, but the tensor has 3 dimensions", "one factor"},
    {"scan", 1, {4}, "has 2 factors, but the tensor has 1 dimension", "column 1"},
    {"scaw", 3, {4, 2, 2}, "has 2 factors, but the tensor has 3 dimensions", "column 1"},
    {"t(kron(tri,tri))", 1, {4}, "kron at column 3 has 2 factors, but the tensor has 1 dimension", "one factor"},
    {"kron(kron(tri,tri),diag)", 2, {4, 4}, "kron may not stand at column 6", "as a part of a sum"},
    {"block(kron(tri:2,tri:2):4,diag)", 1, {6}, "kron may not stand at column 7", "as a part of a sum"},
    {"block(sum(kron(tri:2,tri:2)):4,diag)", 1, {6}, "kron may not stand at column 11", "as a part of a sum"},
    {"kron(t(scan),diag)", 2, {4, 4}, "kron may not stand at column 8", "as a part of a sum"},
};

static void wrong_specs_are_refused_with_what_and_where(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        psgd_status status = try_spec(r->spec, r->ndim, r->shape);
        const char *said = psgd_last_error();
        if (status != PSGD_ERR_SPEC || !strstr(said, r->words) || !strstr(said, r->more)) {
            print_error("'%s': status %d, expected '%s' and '%s' in: %s\n", r->spec, (int)status, r->words, r->more,
                        said);
            fail();
        }
    }
}

/* The same words, whoever asks. */
static void cost_and_tree_refuse_as_create_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        char *tree = (char *)&tree;
        assert_fails(psgd_group_cost(NULL, r->spec, r->ndim, r->shape, PSGD_F64, NULL, NULL, NULL, NULL, NULL, NULL),
                     PSGD_ERR_SPEC, r->words);
        assert_fails(psgd_group_tree(NULL, r->spec, r->ndim, r->shape, PSGD_F64, &tree), PSGD_ERR_SPEC, r->words);
        assert_null(tree);
    }
}

static char *repeated(const char *before, const char *middle, const char *after, int times)
{
    size_t b = strlen(before), m = strlen(middle), a = strlen(after);
    char *text = malloc((b + a) * (size_t)times + m + 1), *at = text;
    for (int i = 0; i < times; i++, at += b) memcpy(at, before, b);
    memcpy(at, middle, m);
    at += m;
    for (int i = 0; i < times; i++, at += a) memcpy(at, after, a);
    *at = 0;
    return text;
}

static void deep_nesting_is_refused_not_followed(void **state)
{
    (void)state;
    int64_t n = 4;
    char *deep = repeated("t(", "diag", ")", 10000), *open = repeated("t(", "", "", 10000);
    char *sums = repeated("sum(", "diag", ")", 10000), *longest = repeated("x", "", "", 200000);
    assert_fails(try_spec(deep, 1, &n), PSGD_ERR_SPEC, "nested more than");
    assert_fails(try_spec(open, 1, &n), PSGD_ERR_SPEC, "nested more than");
    assert_fails(try_spec(sums, 1, &n), PSGD_ERR_SPEC, "column");
    assert_fails(try_spec(longest, 1, &n), PSGD_ERR_SPEC, "200000 characters is too long");
    free(deep);
    free(open);
    free(sums);
    free(longest);
    char *fine = repeated("t(", "tri", ")", 60);
    assert_ok(try_spec(fine, 1, &n));
    free(fine);
}

static void krons_below_krons_have_a_limit(void **state)
{
    (void)state;
    int64_t n = 1;
    char *four = repeated("sum(kron(", "diag:1", "))", 4), *five = repeated("sum(kron(", "diag:1", "))", 5);
    /* every factor of a kron in a sum has a size: sum(kron(sum(kron(diag:1)))) finds them from below */
    assert_ok(try_spec(four, 1, &n));
    assert_fails(try_spec(five, 1, &n), PSGD_ERR_SPEC, "at most");
    free(four);
    free(five);
}

static void white_space_is_free(void **state)
{
    (void)state;
    int64_t shape[] = {5, 7};
    char *plain, *spaced;
    assert_ok(psgd_group_tree(NULL, "kron(t(block(diag:2,tri)),sum(bnorm:3,scale:4))", 2, shape, PSGD_F32, &plain));
    assert_ok(psgd_group_tree(NULL, "\n kron ( t ( block ( diag : 2 , tri ) ) ,\tsum( bnorm :3, scale: 4 ) ) ", 2,
                              shape, PSGD_F32, &spaced));
    assert_string_equal(plain, spaced);
    psgd_text_free(NULL, plain);
    psgd_text_free(NULL, spaced);
}

static void shapes_that_are_none_are_refused(void **state)
{
    (void)state;
    int64_t zero[] = {3, 0}, negative[] = {-1}, huge[] = {INT64_MAX, 2}, large[] = {INT64_MAX / 2}, many[40];
    for (int i = 0; i < 40; i++) many[i] = 1;
    assert_fails(try_spec("diag", 2, zero), PSGD_ERR_ARGUMENT, "dimension 2 of the tensor has size 0");
    assert_fails(try_spec("diag", 1, negative), PSGD_ERR_ARGUMENT, "dimension 1 of the tensor has size -1");
    assert_fails(try_spec("diag", 2, huge), PSGD_ERR_ARGUMENT, "more elements than can be counted");
    assert_fails(try_spec("diag", 1, large), PSGD_ERR_ARGUMENT, "more elements than can be counted");
    assert_fails(try_spec("diag", 33, many), PSGD_ERR_ARGUMENT, "1 to 32 dimensions, not 33");
    assert_fails(try_spec("diag", 0, many), PSGD_ERR_ARGUMENT, "1 to 32 dimensions, not 0");
    assert_fails(try_spec("diag", -1, many), PSGD_ERR_ARGUMENT, "1 to 32 dimensions, not -1");
    assert_fails(try_spec("diag", 1, NULL), PSGD_ERR_ARGUMENT, "shape");
    assert_fails(try_spec(NULL, 1, many), PSGD_ERR_SPEC, "missing");
}

/* Sizes that parse, fit and cannot be had: described where they can be counted, refused where not; nothing overflows.
 */
static void enormous_groups_are_refused(void **state)
{
    (void)state;
    int64_t n = (int64_t)1 << 40, m = 4294967294, k = 2147483646;
    int64_t size, bytes;
    assert_fails(try_spec("tri", 1, &n), PSGD_ERR_SPEC, "larger than BLAS can count");
    assert_fails(try_spec("dense", 1, &n), PSGD_ERR_SPEC, "larger than BLAS can count");
    assert_fails(try_spec("block(diag:2147483647,diag:2147483647)", 1, &m), PSGD_ERR_NO_MEMORY, "GB");
    assert_ok(psgd_group_cost(NULL, "diag", 1, &n, PSGD_F32, &size, &bytes, NULL, NULL, NULL, NULL));
    assert_true(size == n && bytes == 4 * n);
    assert_ok(psgd_group_cost(NULL, "sum(tri:1073741823,tri:1073741823)", 1, &k, PSGD_F32, &size, &bytes, NULL, NULL,
                              NULL, NULL));
    char spec[4096] = "sum(";
    for (int i = 0; i < 40; i++) strcat(spec, i ? ",tri:1073741823" : "tri:1073741823");
    strcat(spec, ")");
    n = (int64_t)40 * 1073741823;
    assert_fails(psgd_group_cost(NULL, spec, 1, &n, PSGD_F64, &size, &bytes, NULL, NULL, NULL, NULL),
                 PSGD_ERR_NO_MEMORY, "more bytes than can be counted");
}

/* Random bytes never crash the parser, and whatever it refuses has a sentence. */
static void junk_is_refused(void **state)
{
    (void)state;
    static const char *const words[] = {"diag", "tri", "kron", "sum", "block", "t", "(",   ")",    ",",  ":",
                                        "3",    " ",   "scan", "%s",  "\n",    "-", "1e9", "norm", "((", "))"};
    uint64_t seed = 99;
    int64_t shape[] = {2, 3};
    for (int k = 0; k < 3000; k++) {
        char spec[256] = "";
        int64_t parts = 1 + random_below(&seed, 20);
        for (int64_t i = 0; i < parts; i++) strcat(spec, words[random_below(&seed, 20)]);
        psgd_status status = try_spec(spec, 2, shape);
        assert_true(status == PSGD_OK || status == PSGD_ERR_SPEC);
        if (status != PSGD_OK) assert_true(strlen(psgd_last_error()) > 10);
    }
    for (int k = 0; k < 3000; k++) {
        char spec[64] = "";
        int64_t length = random_below(&seed, 60);
        for (int64_t i = 0; i < length; i++) spec[i] = (char)(1 + random_below(&seed, 255));
        assert_int_equal(try_spec(spec, 2, shape), PSGD_ERR_SPEC);
    }
}

typedef struct wrong_option {
    const char *name, *value, *words;
} wrong_option;

static void wrong_options_are_refused(void **state)
{
    (void)state;
    static const wrong_option wrong[] = {
        {"stpe", "0.1", "there is no option stpe; did you mean step?"},
        {"nonsense-option", "0.1", "there is no option nonsense-option"},
        {"step", "fast", "option step needs a finite number, not 'fast'"},
        {"step", "", "option step needs a finite number"},
        {"step", "0.1x", "option step needs a finite number, not '0.1x'"},
        {"step", "nan", "option step needs a finite number, not 'nan'"},
        {"step", "inf", "option step needs a finite number, not 'inf'"},
        {"step", "-0.1", "option step must be at least 0, not -0.1"},
        {"step", "1", "option step must be below 1 with a normalised update"},
        {"norm", "maxx",
         "option norm is one of auto, max, entry, spectral, second, none, not 'maxx'; did you mean max?"},
        {"criterion", "newtom", "option criterion is one of newton, fisher, not 'newtom'; did you mean newton?"},
        {"pairs", "0", "option pairs must be at least 1"},
        {"pairs", "2.5", "option pairs needs a whole number, not '2.5'"},
        {"pairs", "99999999999999999999", "option pairs needs a whole number"},
        {"init-scale", "0", "option init-scale must be at least 1e-15"},
        {"integrate", "maybe", "option integrate is yes or no, not 'maybe'"},
        {"average", "1", "option average must be at least 0 and below 1, not 1"},
        {"damping", "0.1", "option damping belongs to the fisher criterion"},
        {"unbiased", "yes", "option unbiased belongs to the fisher criterion"},
    };
    int64_t n = 3;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psgd_options *options;
        psgd_precond *precond;
        assert_ok(psgd_options_create(NULL, &options));
        assert_ok(psgd_options_set(options, wrong[i].name, wrong[i].value));
        assert_fails(psgd_precond_create(NULL, "diag", 1, &n, PSGD_F64, options, &precond), PSGD_ERR_ARGUMENT,
                     wrong[i].words);
        assert_null(precond);
        psgd_options_free(options);
    }
}

static void calls_refuse_what_they_cannot_take(void **state)
{
    (void)state;
    psgd_precond *precond;
    psgd_context *context;
    int64_t n = 2;
    double x[] = {1, 2}, y[4], value;
    assert_fails(psgd_precond_create(NULL, "diag", 1, &n, PSGD_F64, NULL, NULL), PSGD_ERR_ARGUMENT, "precond is NULL");
    assert_fails(psgd_precond_create(NULL, "diag", 1, &n, (psgd_dtype)7, NULL, &precond), PSGD_ERR_ARGUMENT, "not 7");
    assert_ok(psgd_precond_create(NULL, "diag", 1, &n, PSGD_F64, NULL, &precond));
    assert_fails(psgd_precond_update(precond, x, NULL), PSGD_ERR_ARGUMENT, "needs a preconditioner and h");
    assert_fails(psgd_precond_update(NULL, x, x), PSGD_ERR_ARGUMENT, "needs a preconditioner and h");
    assert_fails(psgd_precond_update(precond, NULL, x), PSGD_ERR_ARGUMENT, "needs v");
    assert_fails(psgd_precond_update_pairs(precond, 2, x, x), PSGD_ERR_ARGUMENT, "1 to 1 pairs (option pairs), not 2");
    assert_fails(psgd_precond_update_pairs(precond, 0, x, x), PSGD_ERR_ARGUMENT, "not 0");
    assert_fails(psgd_precond_apply(precond, (psgd_operator)99, x, y), PSGD_ERR_ARGUMENT, "there is no operator 99");
    assert_fails(psgd_precond_apply(precond, PSGD_APPLY_P, NULL, y), PSGD_ERR_ARGUMENT, "x and y");
    assert_fails(psgd_precond_factor(precond, 1, y), PSGD_ERR_ARGUMENT, "there is no factor 1");
    assert_fails(psgd_precond_factor(precond, -1, y), PSGD_ERR_ARGUMENT, "there is no factor -1");
    assert_fails(psgd_precond_set_step(precond, 1), PSGD_ERR_ARGUMENT, "below 1");
    assert_fails(psgd_precond_set_step(precond, NAN), PSGD_ERR_ARGUMENT, "not nan");
    assert_fails(psgd_precond_criterion(precond, x, NULL, &value), PSGD_ERR_ARGUMENT, "needs v, h");
    assert_fails(psgd_precond_condition(precond, NULL), PSGD_ERR_ARGUMENT, "condition");
    assert_fails(psgd_options_set(NULL, "step", "1"), PSGD_ERR_ARGUMENT, "NULL");
    assert_fails(psgd_options_create(NULL, NULL), PSGD_ERR_ARGUMENT, "NULL");
    assert_fails(psgd_context_create(NULL, NULL), PSGD_ERR_ARGUMENT, "NULL");
    assert_fails(psgd_context_create(&(psgd_allocator){0}, &context), PSGD_ERR_ARGUMENT, "allocate");
    assert_null(context);
    psgd_precond_free(precond);
    psgd_precond_free(NULL);
    psgd_options_free(NULL);
    psgd_context_free(NULL);
}

/* What psgd group shows of a transposed group: t is pushed inward, and goes where it changes nothing. */
static void trees_show_transposes_by_their_names(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int ndim;
        int64_t shape[2];
        const char *lines[6];
    } shown[] = {
        {"t(tri)", 1, {3}, {"tril:3 "}},
        {"t(tril)", 1, {3}, {"tri:3 "}},
        {"t(t(tri))", 1, {3}, {"tri:3 "}},
        {"t(diag)", 1, {3}, {"diag:3 "}},
        {"t(scale)", 1, {3}, {"scale:3 "}},
        {"t(dense)", 1, {3}, {"dense:3 "}},
        {"t(xmat)", 1, {3}, {"xmat:3 "}},
        {"t(norm)", 1, {3}, {"t norm:3 "}},
        {"t(sum(tri:2,bnorm:2))", 1, {4}, {"sum:4 ", "  tril:2 ", "  t bnorm:2 "}},
        {"t(kron(diag,tri))", 2, {2, 3}, {"kron:6 ", "  diag:2 ", "  tril:3 "}},
        {"t(block(tri:2,diag))", 1, {4}, {"t block:4 ", "  tril:2 ", "  diag:2 "}},
        {"t(scan)", 2, {2, 3}, {"kron:6 ", "  diag:2 ", "  t norm:3 "}},
        {"norm", 1, {1}, {"scale:1 "}},
        {"bnorm", 1, {1}, {"identity:1 "}},
    };
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        char *tree, *at;
        assert_ok(psgd_group_tree(NULL, shown[i].spec, shown[i].ndim, shown[i].shape, PSGD_F32, &tree));
        at = tree;
        for (int k = 0; k < 6 && shown[i].lines[k]; k++) {
            if (!at || strncmp(at, shown[i].lines[k], strlen(shown[i].lines[k]))) {
                print_error("%s: line %d is not '%s' in\n%s", shown[i].spec, k, shown[i].lines[k], tree);
                fail();
            }
            at = strchr(at, '\n');
            if (at) at++;
        }
        psgd_text_free(NULL, tree);
    }
}

/* The numbers of the table in DESIGN.md. */
static void size_are_those_of_the_design(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int64_t n, size;
    } rows[] = {{"identity", 7, 0},
                {"scale", 7, 1},
                {"diag", 7, 7},
                {"tri", 7, 28},
                {"tril", 7, 28},
                {"dense", 7, 49},
                {"norm", 7, 13},
                {"bnorm", 7, 12},
                {"xmat", 7, 13},
                {"xmat", 8, 16},
                {"norm", 1, 1},
                {"bnorm", 1, 0},
                {"t(norm)", 7, 13},
                {"block(tri:3,diag:4)", 7, 22},
                {"sum(tri:3,diag:4)", 7, 10},
                {"sum(kron(tri:3,tri:4),diag:5)", 17, 21}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t size;
        assert_ok(psgd_group_cost(NULL, rows[i].spec, 1, &rows[i].n, PSGD_F32, &size, NULL, NULL, NULL, NULL, NULL));
        assert_int_equal(size, rows[i].size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_specs_are_refused_with_what_and_where),
        cmocka_unit_test(cost_and_tree_refuse_as_create_does),
        cmocka_unit_test(deep_nesting_is_refused_not_followed),
        cmocka_unit_test(krons_below_krons_have_a_limit),
        cmocka_unit_test(white_space_is_free),
        cmocka_unit_test(shapes_that_are_none_are_refused),
        cmocka_unit_test(enormous_groups_are_refused),
        cmocka_unit_test(junk_is_refused),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(calls_refuse_what_they_cannot_take),
        cmocka_unit_test(trees_show_transposes_by_their_names),
        cmocka_unit_test(size_are_those_of_the_design),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
