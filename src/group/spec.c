/* The parser: spec := name | name "(" arg {"," arg} ")", arg := spec [":" size] | number. */
#include "group/spec.h"
#include "core/memory.h"
#include "core/text.h"
#include "group/registry.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    spec_tree *tree;
    const char *source, *at;
    int depth;
    int alias_column; /* where the alias that is being expanded stands, or 0 */
} parser;

static int column(const parser *p)
{
    return p->alias_column ? p->alias_column : (int)(p->at - p->source) + 1;
}

static void skip_space(parser *p)
{
    while (isspace((unsigned char)*p->at)) p->at++;
}

static bool accept(parser *p, char wanted)
{
    skip_space(p);
    if (*p->at != wanted) return false;
    p->at++;
    return true;
}

static bool name_char(char c)
{
    return islower((unsigned char)c) || isdigit((unsigned char)c) || c == '_';
}

static psgd_status refuse_name(const parser *p, const char *name)
{
    if (!strcmp(name, "auto")) {
        return psgd__fail(PSGD_ERR_SPEC, "auto stands alone: it chooses the group of a whole tensor (column %d)",
                          column(p));
    }
    const char *names[128];
    int count = 0, all = psgd__group_kind_count(p->tree->context);
    for (int i = 0; i < all && count < 128; i++) names[count++] = psgd__group_kind_at(p->tree->context, i)->name;
    return psgd__fail(PSGD_ERR_SPEC, "there is no group '%s' (column %d)%s; psgd group --list shows all", name,
                      column(p), psgd__suggest("", name, names, count).words);
}

static psgd_status parse_name(parser *p, spec *node)
{
    char name[64];
    size_t length = 0;
    skip_space(p);
    while (length < sizeof name - 1 && name_char(p->at[length])) length++;
    if (length == 0) {
        if (!*p->at) return psgd__fail(PSGD_ERR_SPEC, "a group name is missing at the end of the spec");
        return psgd__fail(PSGD_ERR_SPEC, "a group name, in lower case, must stand at column %d, not '%.20s'", column(p),
                          p->at);
    }
    memcpy(name, p->at, length);
    name[length] = 0;
    node->column = column(p);
    int count = psgd__group_kind_count(p->tree->context);
    for (int i = 0; i < count; i++) {
        const group_kind *kind = psgd__group_kind_at(p->tree->context, i);
        if (strcmp(kind->name, name)) continue;
        node->kind = kind;
        node->kind_index = i;
        p->at += length;
        return PSGD_OK;
    }
    return refuse_name(p, name);
}

static psgd_status parse_size(parser *p, spec *node)
{
    if (!accept(p, ':')) return PSGD_OK;
    skip_space(p);
    char *end;
    errno = 0;
    long long size = isdigit((unsigned char)*p->at) ? strtoll(p->at, &end, 10) : 0;
    if (size <= 0 || errno) {
        return psgd__fail(PSGD_ERR_SPEC, "a size of 1 or more must follow ':' at column %d (after %s)", column(p),
                          node->kind->name);
    }
    p->at = end;
    node->size = size;
    return PSGD_OK;
}

static psgd_status new_node(parser *p, spec **node)
{
    if (p->tree->count == p->tree->room) return psgd__fail(PSGD_ERR_NO_MEMORY, "the spec has too many parts");
    *node = &p->tree->nodes[p->tree->count++];
    (*node)->size = -1;
    return PSGD_OK;
}

static psgd_status parse_spec(parser *p, spec **created);

static psgd_status expand_alias(parser *p, spec *node)
{
    parser inner = {.tree = p->tree,
                    .source = node->kind->alias,
                    .at = node->kind->alias,
                    .depth = p->depth,
                    .alias_column = node->column};
    spec *meant;
    PSGD_TRY(parse_spec(&inner, &meant));
    int64_t size = node->size;
    *node = *meant;
    node->size = size;
    return PSGD_OK;
}

static psgd_status parse_number(parser *p, spec *node)
{
    skip_space(p);
    char *end;
    node->number = psgd__to_number(p->at, &end);
    if (end == p->at || !(node->number >= 0 && node->number <= 1e9) || node->number != (double)(int64_t)node->number) {
        return psgd__fail(PSGD_ERR_SPEC, "%s takes one whole number, as in %s(10) (column %d)", node->kind->name,
                          node->kind->name, column(p));
    }
    p->at = end;
    return PSGD_OK;
}

/* A copy of a node and of what is below it. */
static psgd_status copy_node(parser *p, const spec *from, spec **copy)
{
    PSGD_TRY(new_node(p, copy));
    **copy = *from;
    spec **last = &(*copy)->first;
    for (const spec *child = from->first; child; child = child->next) {
        PSGD_TRY(copy_node(p, child, last));
        last = &(*last)->next;
    }
    return PSGD_OK;
}

static psgd_status parse_count(parser *p, const spec *node, int64_t *count)
{
    char *end;
    bool comma = accept(p, ',');
    skip_space(p);
    errno = 0;
    *count = comma && isdigit((unsigned char)*p->at) ? strtoll(p->at, &end, 10) : 0;
    if (*count <= 0 || errno) {
        return psgd__fail(PSGD_ERR_SPEC,
                          "%s takes a group and two whole numbers of at least 1, rows and columns of tiles, as in "
                          "%s(kron(dense,dense),2,3) (column %d)",
                          node->kind->name, node->kind->name, column(p));
    }
    p->at = end;
    return PSGD_OK;
}

/* tiles(G,a,b): G, the numbers, and three copies of G, since tiles have up to four sizes. */
static psgd_status parse_tiles(parser *p, spec *node)
{
    PSGD_TRY(parse_spec(p, &node->first));
    PSGD_TRY(parse_size(p, node->first));
    PSGD_TRY(parse_count(p, node, &node->down));
    PSGD_TRY(parse_count(p, node, &node->across));
    spec *last = node->first;
    for (node->child_count = 1; node->child_count < 4; node->child_count++) {
        PSGD_TRY(copy_node(p, node->first, &last->next));
        last = last->next;
        last->next = NULL;
    }
    return PSGD_OK;
}

static psgd_status parse_children(parser *p, spec *node)
{
    if (node->kind->sizes == SIZES_TILES) return parse_tiles(p, node);
    spec **last = &node->first;
    do {
        PSGD_TRY(parse_spec(p, last));
        PSGD_TRY(parse_size(p, *last));
        last = &(*last)->next;
        node->child_count++;
    } while (accept(p, ','));
    return PSGD_OK;
}

static psgd_status check_children(const spec *node, bool brackets)
{
    const group_kind *kind = node->kind;
    int count = node->child_count;
    if (kind->takes_number && !brackets) {
        return psgd__fail(PSGD_ERR_SPEC, "%s needs a number, as in %s(10) (column %d)", kind->name, kind->name,
                          node->column);
    }
    if (kind->min_children == 0 && brackets && !kind->takes_number) {
        return psgd__fail(PSGD_ERR_SPEC, "%s takes no arguments (column %d)", kind->name, node->column);
    }
    if (count < kind->min_children || (kind->max_children >= 0 && count > kind->max_children)) {
        bool exact = kind->min_children == kind->max_children;
        return psgd__fail(PSGD_ERR_SPEC, "%s takes %s%d group%s, not %d (column %d)", kind->name,
                          exact                        ? ""
                          : count < kind->min_children ? "at least "
                                                       : "at most ",
                          count < kind->min_children ? kind->min_children : kind->max_children,
                          (count < kind->min_children ? kind->min_children : kind->max_children) == 1 ? "" : "s", count,
                          node->column);
    }
    return PSGD_OK;
}

static psgd_status parse_spec(parser *p, spec **created)
{
    spec *node = NULL;
    if (p->depth >= SPEC_MAX_DEPTH) {
        return psgd__fail(PSGD_ERR_SPEC, "the spec is nested more than %d deep (column %d)", SPEC_MAX_DEPTH, column(p));
    }
    PSGD_TRY(new_node(p, &node));
    PSGD_TRY(parse_name(p, node));
    p->depth++;
    int open = column(p);
    bool brackets = accept(p, '(');
    if (brackets) {
        if (node->kind->takes_number) {
            PSGD_TRY(parse_number(p, node));
        } else if (node->kind->min_children > 0) {
            PSGD_TRY(parse_children(p, node));
        } else {
            return check_children(node, true);
        }
        if (!accept(p, ')')) {
            return psgd__fail(PSGD_ERR_SPEC,
                              "the bracket of %s at column %d is not closed: ',' or ')' expected at column %d",
                              node->kind->name, open, column(p));
        }
    }
    p->depth--;
    PSGD_TRY(check_children(node, brackets));
    if (node->kind->alias) PSGD_TRY(expand_alias(p, node));
    *created = node;
    return PSGD_OK;
}

/* What may stand at a place in the tree. */
typedef struct place {
    bool tensor;  /* a group of several modes */
    bool vector;  /* a family that is not a group */
    bool matrix;  /* one that needs the shape of the tensor */
    bool blocked; /* below a block */
    int krons;    /* above it */
} place;

static place below(const group_kind *kind, place here)
{
    bool sum = kind->holds_tensors;
    place next = {.krons = here.krons + (kind->sizes == SIZES_MULTIPLY)};
    next.blocked = here.blocked || (kind->sizes == SIZES_ADD && !sum);
    next.tensor = kind->sizes == SIZES_SAME ? here.tensor : sum && !next.blocked;
    next.vector = sum && here.vector;
    next.matrix = kind->sizes == SIZES_SAME && here.matrix;
    return next;
}

static psgd_status check_places(const spec *node, place here)
{
    const group_kind *kind = node->kind;
    if (kind->place == PLACE_TENSOR && !here.tensor) {
        return psgd__fail(PSGD_ERR_SPEC,
                          "%s may not stand at column %d: it goes at the root, under t, or as a part of a sum",
                          kind->name, node->column);
    }
    if (kind->place == PLACE_TENSOR && here.krons >= SPEC_MAX_KRONS) {
        return psgd__fail(PSGD_ERR_SPEC, "%s at column %d stands below %d others of its kind; there may be at most %d",
                          kind->name, node->column, here.krons, SPEC_MAX_KRONS - 1);
    }
    if (kind->place == PLACE_VECTOR && !here.vector) {
        return psgd__fail(PSGD_ERR_SPEC, "%s may not stand at column %d: it goes at the root or as a part of a sum",
                          kind->name, node->column);
    }
    if (kind->place == PLACE_MATRIX && !here.matrix) {
        return psgd__fail(PSGD_ERR_SPEC,
                          "%s may not stand at column %d: it cuts the matrix itself, so it goes at the root or under t",
                          kind->name, node->column);
    }
    for (const spec *child = node->first; child; child = child->next) {
        PSGD_TRY(check_places(child, below(kind, here)));
    }
    return PSGD_OK;
}

psgd_status psgd__spec_parse(const psgd_context *context, const char *source, spec_tree *tree)
{
    *tree = (spec_tree){.context = context};
    if (!source) return psgd__fail(PSGD_ERR_SPEC, "the group spec is missing");
    size_t length = strlen(source);
    if (length > 100000) return psgd__fail(PSGD_ERR_SPEC, "a group spec of %zu characters is too long", length);
    int copies = strstr(source, "tiles") ? 4 : 1;
    tree->room = copies * (4 * (int)length + 8); /* a name stands for at most four nodes, below tiles four times */
    tree->nodes = psgd__alloc(context, tree->room, sizeof tree->nodes[0]);
    if (!tree->nodes) return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the spec");

    parser p = {.tree = tree, .source = source, .at = source};
    psgd_status status = parse_spec(&p, &tree->root);
    skip_space(&p);
    if (status == PSGD_OK && *p.at) {
        status = psgd__fail(PSGD_ERR_SPEC, "the spec should end at column %d, before '%.20s'", column(&p), p.at);
    }
    if (status == PSGD_OK) status = check_places(tree->root, (place){.tensor = true, .vector = true, .matrix = true});
    if (status != PSGD_OK) psgd__spec_free(tree);
    return status;
}

void psgd__spec_free(spec_tree *tree)
{
    psgd__free(tree->context, tree->nodes);
    psgd__free(tree->context, tree->text);
    *tree = (spec_tree){.context = tree->context};
}
