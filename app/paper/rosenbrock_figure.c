/* The figure: medians over the seeds, with the quartiles as bands where a method draws random numbers. */
#include "core/memory.h"
#include "core/text.h"
#include "report/plot.h"
#include "paper/rosenbrock.h"

#include <math.h>

enum { POINTS = ROSENBROCK_ITERATIONS + 1 };

typedef double curve[POINTS];

/* On a log axis there is no zero: what is below the frame ends there. */
static double shown(double value)
{
    return fmax(value, 1e-32);
}

psgd_status psgd__rosenbrock_figure(const rosenbrock_runs *runs, const char *folder)
{
    curve *curves = psgd__alloc(NULL, 1 + 3 * ROSENBROCK_METHODS, sizeof(curve));
    text stem = {0};
    psgd__text_add(&stem, "%s/rosenbrock", folder);
    if (!curves || stem.failed) {
        psgd__free(NULL, curves);
        psgd__text_free(&stem);
        return psgd__fail(PSGD_ERR_NO_MEMORY, "no memory for the figure");
    }
    plot_series series[2 * ROSENBROCK_METHODS];
    int count = 0;
    for (int i = 0; i < POINTS; i++) curves[0][i] = i;
    for (int m = 0; m < ROSENBROCK_METHODS; m++) {
        curve *own = curves + 1 + 3 * m;
        for (int i = 0; i < POINTS; i++) {
            double q[3];
            psgd__rosenbrock_quartiles(runs, m, i, q);
            for (int k = 0; k < 3; k++) own[k][i] = shown(q[k]);
        }
        if (psgd__rosenbrock_methods[m].options[0]) {
            series[count++] = (plot_series){.style = PLOT_BAND,
                                            .colour = m,
                                            .opacity = 0.2,
                                            .count = POINTS,
                                            .x = curves[0],
                                            .y = own[0],
                                            .upper = own[2]};
        }
        series[count++] = (plot_series){.label = psgd__rosenbrock_methods[m].name,
                                        .colour = m,
                                        .width = 2,
                                        .count = POINTS,
                                        .x = curves[0],
                                        .y = own[1]};
    }
    plot_panel panel = {.x = {.label = "iteration", .min = 0, .max = 400},
                        .y = {.label = "value", .log = true, .min = 1e-30, .max = 1e10},
                        .series = series,
                        .series_count = count};
    plot_figure figure = {.title = "Rosenbrock's function from (-1, 1): median of 21 seeds, quartiles shaded",
                          .rows = 1,
                          .columns = 1,
                          .panels = &panel};
    psgd_status status = psgd__plot_write(NULL, &figure, stem.chars);
    psgd__text_free(&stem);
    psgd__free(NULL, curves);
    return status;
}
