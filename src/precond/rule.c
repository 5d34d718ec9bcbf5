/* Update rules, and which groups they fit.
 *
 * All descend the same criterion, in other coordinates: dQ = EQ is the paper's. The others take Pi(XYZ) = X Pi(Y) Z for
 * granted, which holds where the algebra is closed under products and transposition (self_adjoint). */
#include "precond/precond.h"
#include "core/text.h"

static const update_rule rules[] = {
    [RULE_EQ] = {.name = "eq"},                                                 /* dQ = E Q */
    [RULE_QEQ] = {.name = "qeq", .images = IMAGES_APPLIED, .side = SIDE_RIGHT}, /* Q E Q */
    [RULE_PRO] = {.name = "pro", .images = IMAGES_APPLIED, .rotate = true},     /* Q^1/2 E Q^3/2 */
    [RULE_QUAD] = {.name = "quad", .images = IMAGES_APPLIED, .side = SIDE_BOTH},
    [RULE_QEP] = {.name = "qep", .images = IMAGES_OWN, .balance = true}, /* Q E P */
};

const update_rule *psgd__rule_at(int choice)
{
    return &rules[choice];
}

static bool any_unprotected(const spec *node)
{
    if (node->kind->unprotected) return true;
    for (const spec *child = node->first; child; child = child->next) {
        if (any_unprotected(child)) return true;
    }
    return false;
}

/* The first part that is not self-adjoint, or NULL. */
static const spec *find_misfit(const spec *node)
{
    if (!node->kind->self_adjoint) return node;
    for (const spec *child = node->first; child; child = child->next) {
        const spec *misfit = find_misfit(child);
        if (misfit) return misfit;
    }
    return NULL;
}

/* The spec with dense in place of what does not fit, which holds every group of its size; diag in place of a family,
 * which is there because its tensor is large. */
static void add_fitting(text *to, const spec *node)
{
    while (node->kind->sizes == SIZES_SAME) node = node->first;
    psgd__text_add(to, "%s",
                   node->kind->self_adjoint            ? node->kind->name
                   : node->kind->place == PLACE_VECTOR ? "diag"
                                                       : "dense");
    if (node->kind->self_adjoint) {
        bool tiles = node->kind->sizes == SIZES_TILES;
        for (const spec *child = node->first; child; child = tiles ? NULL : child->next) {
            psgd__text_add(to, child == node->first ? "(" : ",");
            add_fitting(to, child);
        }
        if (tiles) psgd__text_add(to, ",%lld,%lld", (long long)node->down, (long long)node->across);
        if (node->first) psgd__text_add(to, ")");
    }
    if (node->size > 0) psgd__text_add(to, ":%lld", (long long)node->size);
}

static psgd_status refuse(const spec_tree *tree, const spec *misfit, const char *rule)
{
    text fitting = {.context = tree->context};
    add_fitting(&fitting, tree->root);
    psgd_status status = psgd__fail(
        PSGD_ERR_UNSUPPORTED,
        "rule %s needs a group that holds the transposes of its elements, and %s (column %d) does not: take the group "
        "%s, or rule eq",
        rule, misfit->kind->name, misfit->column, fitting.failed ? "dense" : fitting.chars);
    psgd__text_free(&fitting);
    return status;
}

psgd_status psgd__rule_resolve(const spec_tree *tree, precond_settings *set)
{
    const spec *misfit = find_misfit(tree->root);
    bool second = set->norm == NORM_AUTO || set->norm == NORM_SECOND;
    bool grows = set->rows == ROWS_EXACT; /* absent rows, by a factor every update */
    if (set->rule == RULE_AUTO) set->rule = !misfit && second && !grows ? RULE_PRO : RULE_EQ;
    const update_rule *rule = psgd__rule_at(set->rule);
    if (psgd__rule_is_inverse_free(rule)) {
        if (misfit) return refuse(tree, misfit, rule->name);
        if (!second) {
            return psgd__fail(PSGD_ERR_ARGUMENT, "rule %s has the normaliser second: leave out the option norm",
                              rule->name);
        }
        set->norm = NORM_SECOND;
    }
    if (set->norm == NORM_AUTO) set->norm = any_unprotected(tree->root) ? NORM_SPECTRAL : NORM_MAX;
    return PSGD_OK;
}
