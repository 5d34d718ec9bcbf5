/* Quasi-Newton or truncated Newton steps, by what they have gained per evaluation.
 *
 * Steps come in blocks: a Newton block is one step, a quasi-Newton block as many steps as cost the same. The other
 * kind, the challenger, gets a block between two of the incumbent, so that its rate is compared with theirs at about
 * the same distance from the minimum. Newton steps get the benefit of the doubt by FAVOUR: they improve P for both.
 * After a loss the next trial comes after twice as many blocks. */
#include "optim/minimize.h"

#include <math.h>

enum { WAITING, BEFORE, CHALLENGE, AFTER }; /* schedule.phase */
enum { MAX_PATIENCE = 8, MIN_PRICE = 8 };

static const double FAVOUR = 1.5;

void psgd__schedule_start(step_choice *plan, bool products)
{
    *plan = (step_choice){.fixed = !products,
                          .incumbent = products ? STEP_NEWTON : STEP_QUASI,
                          .phase = WAITING,
                          .wait = 1,
                          .patience = 1,
                          .price = MIN_PRICE};
}

step_kind psgd__schedule_next(const step_choice *plan)
{
    bool other = plan->phase == CHALLENGE;
    return (plan->incumbent == STEP_NEWTON) != other ? STEP_NEWTON : STEP_QUASI;
}

bool psgd__schedule_is_trial(const step_choice *plan)
{
    return plan->phase == CHALLENGE;
}

static void judge(step_choice *plan, double after)
{
    double theirs = sqrt(plan->before * after), edge = plan->incumbent == STEP_NEWTON ? FAVOUR : 1 / FAVOUR;
    if (plan->challenger > edge * theirs) {
        plan->incumbent = plan->incumbent == STEP_NEWTON ? STEP_QUASI : STEP_NEWTON;
        plan->patience = 1;
    } else if (plan->patience < MAX_PATIENCE) {
        plan->patience *= 2;
    }
    plan->wait = plan->patience;
}

static void end_block(step_choice *plan, double rate)
{
    switch (plan->phase) {
    case WAITING:
        if (--plan->wait <= 0) plan->phase = BEFORE;
        break;
    case BEFORE:
        plan->before = rate;
        plan->phase = CHALLENGE;
        break;
    case CHALLENGE:
        plan->challenger = rate;
        plan->phase = AFTER;
        break;
    default:
        judge(plan, rate);
        plan->phase = WAITING;
    }
}

void psgd__schedule_note(step_choice *plan, double gain, double cost)
{
    if (plan->fixed) return;
    bool newton = psgd__schedule_next(plan) == STEP_NEWTON;
    plan->block_gain += gain > 0 ? gain : 0;
    plan->block_cost += cost;
    if (newton) plan->price = fmax(cost, MIN_PRICE);
    if (!newton && plan->block_cost < plan->price) return;
    end_block(plan, plan->block_gain / fmax(plan->block_cost, 1));
    plan->block_gain = plan->block_cost = 0;
}
