/* psgd group --plan --ranks: who holds what on 1, 2, 4, .. ranks, what a step sends, and about how long it takes.
 *
 *   T(R) = T_gradient / R + (bytes of the busiest rank) / beta + alpha exchanges + max over ranks of (update + apply)
 *
 * Bytes, with the share p of steps that have a product: of its own tensors (o of all a) a rank receives (R - 1) o (1 +
 * p) of gradients and Hv and sends (R - 1) o of directions, of the others it sends (a - o)(1 + p) and receives a - o;
 * by way of even segments, where that is less, a and o instead of (R - 1) o. A tensor of all ranks costs each 2 (R - 1)
 * / R n (1 + p), both ways. Nothing is hidden behind the backward pass. */
#include "cli/plan.h"

#include <stdlib.h>

typedef struct rates {
    double flops, bytes, seconds, products, gradient;
} rates;

typedef struct unit {
    double n, q, work; /* bytes of the tensor and of Q; flops of an update and an apply */
    int owner;
} unit;

typedef struct rank_load {
    double q, work, sent, received, longest;
} rank_load;

static const double cheap = 64; /* flops an element, as in the library */

static psgd_status read_rates(const cli_args *args, rates *to)
{
    *to = (rates){.flops = 50, .bytes = 1, .seconds = 20, .products = 1};
    PSGD_TRY(cli_number(args, "gflops", &to->flops));
    PSGD_TRY(cli_number(args, "gigabytes", &to->bytes));
    PSGD_TRY(cli_number(args, "latency", &to->seconds));
    PSGD_TRY(cli_number(args, "products", &to->products));
    PSGD_TRY(cli_number(args, "gradient-flops", &to->gradient));
    if (!(to->flops > 0) || !(to->bytes > 0) || !(to->seconds >= 0) || !(to->products >= 0 && to->products <= 1)) {
        return cli_wrong_use("--gflops and --gigabytes are above 0, --latency not negative, --products from 0 to 1");
    }
    return PSGD_OK;
}

/* What may have an owner: tensors, and tiles of those whose group is tiles. */
typedef struct unit_list {
    unit *units;
    double *costs;
    int *owners;
    int count;
} unit_list;

static psgd_status count_units(const plan_tensors *t, unit_list *list)
{
    for (int i = 0; i < t->count; i++) {
        int tiles;
        PSGD_TRY(psgd_group_tiles(t->context, t->specs[i], t->ndim[i], t->shapes[i], t->dtype, 0, NULL, &tiles));
        list->count += tiles;
    }
    list->units = calloc((size_t)list->count, sizeof *list->units);
    list->costs = calloc((size_t)list->count, sizeof *list->costs);
    list->owners = calloc((size_t)list->count, sizeof *list->owners);
    return list->units && list->costs && list->owners ? PSGD_OK
                                                      : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a plan");
}

/* As in the library, tiles have owners where the first, which is the largest, is not cheap. */
static psgd_status read_units(const plan_tensors *t, unit_list *list)
{
    double element = (double)psgd_dtype_size(t->dtype);
    psgd_tile *tiles = calloc((size_t)list->count, sizeof *tiles);
    psgd_status status = tiles ? PSGD_OK : psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for a plan");
    int at = 0;
    for (int i = 0; i < t->count && status == PSGD_OK; i++) {
        int count = 0;
        status = psgd_group_tiles(t->context, t->specs[i], t->ndim[i], t->shapes[i], t->dtype, list->count, tiles,
                                  &count);
        bool dear = false;
        for (int k = 0; k < count && status == PSGD_OK; k++, at++) {
            double n = (double)tiles[k].rows * (double)tiles[k].columns;
            double work = tiles[k].update_flops + tiles[k].apply_flops;
            dear = dear || work > cheap * n;
            list->units[at] = (unit){.n = n * element, .q = (double)tiles[k].bytes, .work = work};
            list->costs[at] = dear ? work : 0;
        }
    }
    free(tiles);
    return status;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* What rank r holds, computes, sends and receives. */
static rank_load load_of(const unit *units, int count, int r, double ranks, double p)
{
    rank_load l = {0};
    double chunk = 1 << 18, own = 0, owned = 0, shared = 0;
    for (int i = 0; i < count; i++) {
        const unit *u = &units[i];
        bool all = u->owner < 0, mine = u->owner == r;
        if (all || mine) {
            l.q += u->q;
            l.work += u->work;
        }
        shared += all ? u->n : 0;
        owned += all ? 0 : u->n;
        own += mine ? u->n : 0;
    }
    double both = 2 * (ranks - 1) / ranks * shared * (1 + p);
    l.sent = both + (1 + p) * (owned - own) + smaller((ranks - 1) * own, owned + own);
    l.received = both + (1 + p) * smaller((ranks - 1) * own, owned + own) + owned - own;
    l.longest = (smaller(own, owned / ranks + own / 2) + shared / ranks) / chunk;
    return l;
}

static void show_ranks(const unit *units, int count, int ranks, const rates *rate)
{
    rank_load max = {0};
    for (int r = 0; r < ranks; r++) {
        rank_load l = load_of(units, count, r, ranks, rate->products);
        double busy = l.sent > l.received ? l.sent : l.received;
        if (l.q > max.q) max.q = l.q;
        if (l.work > max.work) max.work = l.work;
        if (busy > max.sent) max.sent = busy;
        if (l.longest > max.longest) max.longest = l.longest;
    }
    double exchanges = ranks > 1 ? 12 + (1 + rate->products) * max.longest : 0;
    double gradient = rate->gradient / ranks / (rate->flops * 1e9), fit = max.work / (rate->flops * 1e9);
    double comm = ranks > 1 ? max.sent / (rate->bytes * 1e9) + exchanges * rate->seconds * 1e-6 : 0;
    char q[32], sent[32];
    printf("%6d %18s %18s %12.4g %12.4g %12.4g %12.4g\n", ranks, psgd__thousands((int64_t)max.q, q),
           psgd__thousands(ranks > 1 ? (int64_t)max.sent : 0, sent), 1e3 * gradient, 1e3 * comm, 1e3 * fit,
           1e3 * (gradient + comm + fit));
}

psgd_status cli_plan_ranks(const cli_args *args, const plan_tensors *t, int64_t ranks)
{
    rates rate;
    if (ranks < 1 || ranks > 1 << 20) return cli_wrong_use("--ranks is from 1 to 1048576");
    PSGD_TRY(read_rates(args, &rate));
    unit_list list = {0};
    psgd_status status = count_units(t, &list);
    if (status == PSGD_OK) status = read_units(t, &list);
    if (status == PSGD_OK) {
        printf("\n%6s %18s %18s %12s %12s %12s %12s\n", "ranks", "bytes of Q, max", "bytes moved, max", "gradient ms",
               "messages ms", "fit ms", "step ms");
    }
    for (int64_t r = 1; status == PSGD_OK && r <= ranks; r = r < ranks && 2 * r > ranks ? ranks : 2 * r) {
        psgd_comm_owners((int)r, list.count, list.costs, list.owners);
        for (int i = 0; i < list.count; i++) list.units[i].owner = list.owners[i];
        show_ranks(list.units, list.count, (int)r, &rate);
    }
    free(list.units);
    free(list.costs);
    free(list.owners);
    return status;
}
